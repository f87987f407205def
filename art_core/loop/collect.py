"""Collecting: what an agent does with its own model, or with a provider's, kept for looking at and for a warm start.

A collected directory holds ``run.toml`` (``kind = "collect"``), ``trajectories.jsonl``, to which every rollout is appended when it
ends, and ``summary.json``. Collecting into it again asks only for what is missing: rollouts that were made are kept, those that
failed are made again.
"""

from __future__ import annotations

import asyncio
import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from art_core.errors import InputError
from art_core.inference.protocol import Policy
from art_core.rewards.protocol import GroupReward, RewardLike
from art_core.rollout.bounded import BoundedRollouts, check_groups
from art_core.rollout.limits import Limits
from art_core.rollout.protocol import Agent
from art_core.scenario import Scenario
from art_core.trajectory import store
from art_core.trajectory.trajectory import Trajectory, TrajectoryGroup

from .evaluate import Evaluation, outcomes_of
from .rundir import RunDir
from .usage import usage_of

__all__ = ["TRAJECTORIES", "Collection", "acollect", "collected", "open_collection"]

TRAJECTORIES = "trajectories.jsonl"


@dataclass(slots=True, kw_only=True)
class Collection:
    """A directory of collected rollouts. ``known`` are those it holds that did not fail, by id."""

    directory: RunDir
    known: dict[str, Trajectory] = field(default_factory=dict)
    failed: int = 0
    """Rollouts it holds that failed and will be made again."""

    @property
    def path(self) -> Path:
        """Where the rollouts lie."""
        return self.directory.path / TRAJECTORIES


def open_collection(path: Path, record: Mapping[str, Any]) -> Collection:
    """A new directory, or one that is there and was collected in the same way.

    Raises:
        InputError: it is something else, or was collected with another agent, model, reward or seed; names what differs.
    """
    record = {"kind": "collect", **record}
    if not (path / "run.toml").is_file():
        return Collection(directory=RunDir.create(path, record, lambda new: new.path.mkdir(parents=True), ()))
    directory = RunDir.open(path)
    found = directory.read_record()
    if found.get("kind") != "collect":
        raise InputError(
            f"{str(path)!r} is the directory of a run, not of collected rollouts; give another one with --out"
        )
    for name in ("agent", "model", "reward", "seed"):
        if found.get(name) != record.get(name):
            raise InputError(
                f"{str(path)!r} was collected with {name} = {found.get(name)!r}, not {record.get(name)!r}; give another --out"
            )
    rollouts = collected(path)
    known = {one.rollout_id: one for one in rollouts if not one.failed}
    return Collection(directory=directory, known=known, failed=len(rollouts) - len(known))


def collected(path: Path) -> list[Trajectory]:
    """The rollouts of a collected directory, the last one of each id; a line that a crash cut short is left out.

    Raises:
        InputError: it holds none.
    """
    place = path / TRAJECTORIES
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", store.CutRecord)
        found = {one.rollout_id: one for one in store.read(place)} if place.is_file() else {}
    return list(found.values())


async def acollect(
    agent: Agent,
    scenarios: Sequence[Scenario],
    policy: Policy,
    collection: Collection,
    *,
    reward: RewardLike | None = None,
    siblings: int = 1,
    concurrency: int = 8,
    limits: Limits | None = None,
    seed: int = 0,
    on_rollout: Callable[[Trajectory], None] | None = None,
) -> dict[str, Any]:
    """Make the rollouts that ``collection`` lacks, ``siblings`` of each scenario, and write and return its summary.

    ``on_rollout`` is told of every new rollout. Interrupted, it keeps those that ended.

    Raises:
        InputError: a count below 1, no scenario, an id that occurs twice, or one that was collected with another input.
    """
    check_groups(scenarios, siblings=siblings, concurrency=concurrency)
    for scenario, number in itertools.product(scenarios, range(siblings)):
        kept = collection.known.get(f"{scenario.id}-{number}")
        if kept is not None and kept.scenario.input != scenario.input:
            raise InputError(
                f"scenario {scenario.id!r} was collected with another input, {kept.scenario.input!r}; give another --out"
            )
    rollouts = BoundedRollouts(
        agent=agent,
        policy=policy,
        reward=reward,
        concurrency=concurrency,
        limits=limits or Limits(),
        on_rollout=_keeper(collection, on_rollout),
    )
    job = _Job(rollouts=rollouts, collection=collection, seed=seed)
    with collection.directory.lock():
        async with asyncio.TaskGroup() as tasks:
            for scenario in scenarios:
                tasks.create_task(job.scenario(scenario, siblings), name=f"collect {scenario.id}")
        return _conclude(collection, {"siblings": siblings, "scenarios": len(scenarios)})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """What the groups of one call share."""

    rollouts: BoundedRollouts
    collection: Collection
    seed: int

    async def scenario(self, scenario: Scenario, siblings: int) -> None:
        """The rollouts of one scenario; a reward that compares them is asked once they are all there, and grades a single one."""
        group = await asyncio.gather(*(self._rollout(scenario, number) for number in range(siblings)))
        if isinstance(self.rollouts.reward, GroupReward) and any(
            not one.failed and one.reward is None for one in group
        ):
            alone = {"evaluating": True} if siblings == 1 else {}
            await self.rollouts.score(
                TrajectoryGroup(scenario=scenario, trajectories=list(group), group_id=scenario.id, metadata=alone)
            )
            for one in group:
                store.append(self.collection.path, one)

    async def _rollout(self, scenario: Scenario, number: int) -> Trajectory:
        if (known := self.collection.known.get(f"{scenario.id}-{number}")) is not None:
            return known
        key = (self.seed, "collect", scenario.id, number)
        return await self.rollouts.run(scenario, group_id=scenario.id, number=number, rng_parts=key)


def _keeper(collection: Collection, told: Callable[[Trajectory], None] | None) -> Callable[[Trajectory], None]:
    """What is to be done with a rollout that ended; one that was cancelled is not kept."""

    def ended(trajectory: Trajectory) -> None:
        if trajectory.stop_reason != "cancelled":
            store.append(collection.path, trajectory)
            if told is not None:
                told(trajectory)

    return ended


def _conclude(collection: Collection, counts: Mapping[str, Any]) -> dict[str, Any]:
    """Write summary.json: of all rollouts the directory holds."""
    record = collection.directory.read_record()
    rollouts = collected(collection.directory.path)
    scored = Evaluation(split="", label="step", step=0, outcomes=outcomes_of(rollouts), seconds=0.0)
    errors = [one.error for one in rollouts if one.error]
    summary = {
        "schema": 1,
        "kind": "collect",
        "name": collection.directory.path.name,
        "model": record["model"],
        **counts,
        "rollouts": len(rollouts),
        "failed": sum(one.failed for one in rollouts),
        "first_error": errors[0] if errors else None,
        "reward": scored.reward,
        "success": scored.success,
        "scored": scored.n,
        **usage_of(rollouts),
    }
    collection.directory.write_summary(summary)
    return summary
