"""Stored rollouts judged again: by another judge, or by another rubric. Nothing of the run is changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from art_core.disk import write_whole
from art_core.errors import InputError
from art_core.judging.agreement import Agreement, agreement
from art_core.rewards.protocol import GroupReward
from art_core.rewards.score import score_group
from art_core.trajectory import store
from art_core.trajectory.trajectory import Trajectory, TrajectoryGroup

from .collect import TRAJECTORIES, collected
from .rundir import RunDir

__all__ = ["Rejudged", "rejudge", "stored_groups", "write_judged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejudged:
    """One rollout, with what it scored in the run and what it scores now."""

    trajectory: Trajectory
    was: float | None

    def record(self) -> dict[str, Any]:
        """A line of the file that is written."""
        one = self.trajectory
        return {
            "rollout_id": one.rollout_id,
            "group_id": one.group_id,
            "scenario": one.scenario.id,
            "reward": one.reward,
            "reason": one.reward_reason,
            "was": self.was,
        }


def stored_groups(directory: Path, step: int | None) -> tuple[list[TrajectoryGroup], str]:
    """The groups of a training step, the newest unless ``step`` says which, or those of a collected directory; and what they are.

    Raises:
        InputError: there are none.
    """
    if (directory / TRAJECTORIES).is_file():
        if step is not None:
            raise InputError(f"{str(directory)!r} holds collected rollouts, which belong to no step; leave --step out")
        return _grouped(collected(directory)), "collected"
    run = RunDir.open(directory)
    steps = sorted(int(path.stem[5:]) for path in run.journal(0).parent.glob("step-[0-9]*.jsonl"))
    number = step if step is not None else (steps[-1] if steps else 0)
    if number not in steps:
        known = f"{steps[0]} to {steps[-1]}" if steps else "none"
        raise InputError(f"run {str(directory)!r} has no rollouts of step {number}; its steps are {known}")
    return _grouped(list(store.read(run.journal(number)))), f"step-{number:06d}"


async def rejudge(
    groups: Sequence[TrajectoryGroup], judge: GroupReward, on_group: Callable[[TrajectoryGroup], None]
) -> tuple[list[Rejudged], Agreement]:
    """Ask about every group, one after the other; a group without usable scores is unscored, with the reason.

    Returns:
        The rollouts, and how far the new scores order siblings as the stored ones did.
    """
    found: list[Rejudged] = []
    compared = []
    for group in groups:
        was = group.rewards
        await score_group(judge, group)
        found += [Rejudged(trajectory=one, was=before) for one, before in zip(group, was, strict=True)]
        compared.append((was, group.rewards))
        on_group(group)
    return found, agreement(compared)


def write_judged(path: Path, rollouts: Sequence[Rejudged]) -> None:
    """One line a rollout, in one move."""
    write_whole(path, (json.dumps(one.record(), ensure_ascii=False) + "\n" for one in rollouts))


def _grouped(trajectories: Sequence[Trajectory]) -> list[TrajectoryGroup]:
    """Siblings together; those of a group with one member have nobody to be compared with."""
    ordered = sorted(trajectories, key=lambda one: one.group_id or one.scenario.id)
    groups = [
        (name, list(members)) for name, members in groupby(ordered, key=lambda one: one.group_id or one.scenario.id)
    ]
    found = [
        TrajectoryGroup(scenario=members[0].scenario, trajectories=members, group_id=name, metadata=_alone(members))
        for name, members in groups
    ]
    if not found:
        raise InputError("there are no rollouts to judge")
    return found


def _alone(members: Sequence[Trajectory]) -> dict[str, Any]:
    """A rollout without siblings is graded by itself, as in an evaluation."""
    return {"evaluating": True} if len(members) == 1 else {}
