"""The trajectories of the step that is going on, written as they end, and read back when the step was cut short.

A group is used again only if it is whole, was sampled by the weights the resumed run has, and holds a score: then the same
bytes are trained. Everything else of the step is sampled again, from the same keys; so is, where the clock must decide
nothing, a rollout that a time limit cut off.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container, Sequence
from pathlib import Path

from art_core.errors import InputError
from art_core.scenario import Scenario
from art_core.trajectory import store
from art_core.trajectory.graph import PolicyVersion
from art_core.trajectory.trajectory import Trajectory, TrajectoryGroup

from .deterministic import decided_by_time

__all__ = ["recover"]


def recover(
    path: Path,
    scenarios: Sequence[Scenario],
    *,
    group_size: int,
    versions: Container[PolicyVersion],
    deterministic: bool = False,
    scored_later: bool = False,
    on_problem: Callable[[str], None],
) -> dict[str, TrajectoryGroup]:
    """Scenario id → its group, for the groups of a step's journal that can be used again.

    Args:
        path: the journal; of two records of one rollout the later one counts. It need not exist.
        versions: the weights that must have sampled every turn.
        deterministic: leave out what a time limit decided.
        scored_later: the reward is asked again for rollouts that have none. Otherwise a group without any is left out:
            what kept it from having one may have been mended since.
        on_problem: told one sentence about a journal that cannot be read.
    """
    if not path.is_file():
        return {}
    records: dict[str, Trajectory] = {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", store.CutRecord)
            for trajectory in store.read(path):
                records[trajectory.rollout_id] = trajectory
    except InputError as error:
        on_problem(f"{error}; its step is sampled again")
        return {}
    found: dict[str, TrajectoryGroup] = {}
    for scenario in scenarios:
        siblings = [
            t
            for t in records.values()
            if t.scenario.id == scenario.id
            and _usable(t, scenario, versions)
            and not (deterministic and decided_by_time(t))
        ]
        siblings.sort(key=lambda t: int(t.rollout_id.rsplit("-", 1)[1]))
        scored = any(not t.failed and (scored_later or t.reward is not None) for t in siblings)
        if len(siblings) == group_size and scored:
            group_id = siblings[0].group_id
            found[scenario.id] = TrajectoryGroup(scenario=scenario, trajectories=siblings, group_id=group_id)
    return found


def _usable(trajectory: Trajectory, scenario: Scenario, versions: Container[PolicyVersion]) -> bool:
    if trajectory.stop_reason in (None, "cancelled") or trajectory.scenario != scenario:
        return False
    return all(span.version in versions for turn in trajectory.graph for span in turn.versions)
