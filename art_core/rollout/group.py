"""Running groups of sibling rollouts with bounded concurrency, keyed randomness and stable ids."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from art_core.inference.protocol import Policy
from art_core.rewards.protocol import RewardLike
from art_core.scenario import Scenario
from art_core.trajectory.trajectory import Trajectory, TrajectoryGroup

from .bounded import BoundedRollouts, check_groups
from .limits import Limits
from .protocol import Agent

__all__ = ["gather"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """What all groups of one gather share."""

    rollouts: BoundedRollouts
    group_size: int
    seed: int
    step: int
    on_group: Callable[[TrajectoryGroup], None] | None
    metadata: dict[str, Any]


async def gather(
    agent: Agent,
    scenarios: Sequence[Scenario],
    policy: Policy,
    *,
    reward: RewardLike | None = None,
    group_size: int = 8,
    concurrency: int = 32,
    limits: Limits | None = None,
    seed: int = 0,
    step: int = 0,
    evaluating: bool = False,
    on_rollout: Callable[[Trajectory], None] | None = None,
    on_group: Callable[[TrajectoryGroup], None] | None = None,
) -> list[TrajectoryGroup]:
    """Run ``group_size`` rollouts of each scenario, at most ``concurrency`` at a time; one group per scenario, in order.

    Group ``{step}-{scenario.id}`` holds rollouts ``{group}-{sibling}``; the key of each one's draws is
    (seed, step, scenario id, sibling), so neither order nor concurrency changes what is sampled. A group reward is
    asked as soon as its group is complete. ``on_rollout`` is called for every rollout that began, failed and cancelled
    ones too, in the order they end and before a group reward; ``on_group`` for every complete, scored group.

    Raises:
        InputError: no scenario, an id that occurs twice, or a size below 1.
        CancelledError: the caller cancelled; every rollout was cancelled and awaited first.
    """
    check_groups(scenarios, group_size=group_size, concurrency=concurrency)
    rollouts = BoundedRollouts(
        agent=agent,
        policy=policy,
        reward=reward,
        concurrency=concurrency,
        limits=limits or Limits(),
        evaluating=evaluating,
        on_rollout=on_rollout,
    )
    metadata: dict[str, Any] = {"evaluating": True} if evaluating else {}
    job = _Job(rollouts=rollouts, group_size=group_size, seed=seed, step=step, on_group=on_group, metadata=metadata)
    failure: BaseException | None = None
    try:
        async with asyncio.TaskGroup() as tasks:
            groups = [
                tasks.create_task(_group(job, scenario), name=f"group {step}-{scenario.id}") for scenario in scenarios
            ]
    except BaseExceptionGroup as errors:
        failure = _first(errors)
    if failure is not None:
        raise failure
    return [task.result() for task in groups]


async def _group(job: _Job, scenario: Scenario) -> TrajectoryGroup:
    group_id = f"{job.step}-{scenario.id}"
    async with asyncio.TaskGroup() as tasks:
        siblings = [
            tasks.create_task(
                job.rollouts.run(
                    scenario,
                    group_id=group_id,
                    number=number,
                    rng_parts=(job.seed, job.step, scenario.id, number),
                ),
                name=f"rollout {group_id}-{number}",
            )
            for number in range(job.group_size)
        ]
    group = TrajectoryGroup(
        scenario=scenario,
        trajectories=[task.result() for task in siblings],
        group_id=group_id,
        metadata=dict(job.metadata),
    )
    await job.rollouts.score(group)
    if job.on_group is not None:
        job.on_group(group)
    return group


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
