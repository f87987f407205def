"""Running groups of sibling rollouts with bounded concurrency, keyed randomness and stable ids."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from art_core import workers
from art_core.errors import InputError
from art_core.inference.protocol import Policy
from art_core.rewards.protocol import GroupReward, RewardLike
from art_core.rewards.score import score_group
from art_core.scenario import Scenario
from art_core.trajectory.trajectory import Trajectory, TrajectoryGroup

from .limits import Limits
from .protocol import Agent
from .runner import rollout

__all__ = ["gather"]

_NESTING = 4
"""How many synchronous nodes deep a rollout may wait for itself in the loop's executor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """What all rollouts of one gather share."""

    agent: Agent
    policy: Policy
    reward: RewardLike | None
    group_size: int
    slots: asyncio.Semaphore
    limits: Limits
    seed: int
    step: int
    evaluating: bool
    on_rollout: Callable[[Trajectory], None] | None
    on_group: Callable[[TrajectoryGroup], None] | None


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
    _check(scenarios, group_size, concurrency)
    workers.size_executor(concurrency * _NESTING)
    job = _Job(
        agent=agent,
        policy=policy,
        reward=reward,
        group_size=group_size,
        slots=asyncio.Semaphore(concurrency),
        limits=limits or Limits(),
        seed=seed,
        step=step,
        evaluating=evaluating,
        on_rollout=on_rollout,
        on_group=on_group,
    )
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
            tasks.create_task(_sibling(job, scenario, group_id, number), name=f"rollout {group_id}-{number}")
            for number in range(job.group_size)
        ]
    group = TrajectoryGroup(scenario=scenario, trajectories=[task.result() for task in siblings], group_id=group_id)
    if isinstance(job.reward, GroupReward):
        await score_group(job.reward, group, seconds=job.limits.reward_seconds)
    if job.on_group is not None:
        job.on_group(group)
    return group


async def _sibling(job: _Job, scenario: Scenario, group_id: str, number: int) -> Trajectory:
    async with job.slots:
        return await rollout(
            job.agent,
            scenario,
            job.policy,
            reward=None if isinstance(job.reward, GroupReward) else job.reward,
            limits=job.limits,
            rollout_id=f"{group_id}-{number}",
            group_id=group_id,
            rng_parts=(job.seed, job.step, scenario.id, number),
            evaluating=job.evaluating,
            on_rollout=job.on_rollout,
        )


def _check(scenarios: Sequence[Scenario], group_size: int, concurrency: int) -> None:
    for name, value in (("group_size", group_size), ("concurrency", concurrency)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InputError(f"{name} must be a whole number of at least 1, got {value!r}")
    if not scenarios:
        raise InputError("there are no scenarios to gather; at least one is needed")
    seen: set[str] = set()
    for scenario in scenarios:
        if scenario.id in seen:
            raise InputError(f"scenario id {scenario.id!r} occurs twice; ids must be unique within one gather")
        seen.add(scenario.id)


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
