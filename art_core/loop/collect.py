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

from art_core import workers
from art_core.errors import InputError
from art_core.inference.protocol import Policy
from art_core.rewards.protocol import GroupReward, RewardLike
from art_core.rewards.score import score_group
from art_core.rollout.limits import Limits
from art_core.rollout.protocol import Agent
from art_core.rollout.runner import rollout
from art_core.scenario import Scenario
from art_core.trajectory import store
from art_core.trajectory.trajectory import Trajectory, TrajectoryGroup

from .evaluate import Evaluation, outcomes_of
from .rundir import RunDir
from .usage import usage_of

__all__ = ["TRAJECTORIES", "Collection", "acollect", "collected", "open_collection"]

TRAJECTORIES = "trajectories.jsonl"
_NESTING = 4


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
    for name, value in (("siblings", siblings), ("concurrency", concurrency)):
        if value < 1:
            raise InputError(f"{name} must be at least 1, got {value}")
    ids = [scenario.id for scenario in scenarios]
    if not ids or len(set(ids)) < len(ids):
        raise InputError("there are no scenarios" if not ids else "a scenario id occurs twice; ids must be unique")
    for scenario, number in itertools.product(scenarios, range(siblings)):
        kept = collection.known.get(f"{scenario.id}-{number}")
        if kept is not None and kept.scenario.input != scenario.input:
            raise InputError(
                f"scenario {scenario.id!r} was collected with another input, {kept.scenario.input!r}; give another --out"
            )
    workers.size_executor(concurrency * _NESTING)
    job = _Job(
        agent=agent,
        policy=policy,
        collection=collection,
        reward=reward,
        slots=asyncio.Semaphore(concurrency),
        limits=limits or Limits(),
        seed=seed,
        on_rollout=on_rollout or (lambda _: None),
    )
    with collection.directory.lock():
        async with asyncio.TaskGroup() as tasks:
            for scenario in scenarios:
                tasks.create_task(job.scenario(scenario, siblings), name=f"collect {scenario.id}")
        return _conclude(collection, {"siblings": siblings, "scenarios": len(ids)})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    agent: Agent
    policy: Policy
    collection: Collection
    reward: RewardLike | None
    slots: asyncio.Semaphore
    limits: Limits
    seed: int
    on_rollout: Callable[[Trajectory], None]

    async def scenario(self, scenario: Scenario, siblings: int) -> None:
        """The rollouts of one scenario; a reward that compares them is asked once they are all there."""
        group = await asyncio.gather(*(self._rollout(scenario, number) for number in range(siblings)))
        if isinstance(self.reward, GroupReward) and any(not one.failed and one.reward is None for one in group):
            together = TrajectoryGroup(scenario=scenario, trajectories=list(group), group_id=scenario.id)
            await score_group(self.reward, together, seconds=self.limits.reward_seconds)
            for one in group:
                store.append(self.collection.path, one)

    async def _rollout(self, scenario: Scenario, number: int) -> Trajectory:
        name = f"{scenario.id}-{number}"
        if name in self.collection.known:
            return self.collection.known[name]
        async with self.slots:
            return await rollout(
                self.agent,
                scenario,
                self.policy,
                reward=None if isinstance(self.reward, GroupReward) else self.reward,
                limits=self.limits,
                rollout_id=name,
                group_id=scenario.id,
                rng_parts=(self.seed, "collect", scenario.id, number),
                on_rollout=self._ended,
            )

    def _ended(self, trajectory: Trajectory) -> None:
        if trajectory.stop_reason != "cancelled":
            store.append(self.collection.path, trajectory)
            self.on_rollout(trajectory)


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
