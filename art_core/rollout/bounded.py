"""Rollouts that share an agent, a policy and a reward, so many at a time and no more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from art_core import workers
from art_core.errors import InputError
from art_core.inference.protocol import Policy
from art_core.rewards.combine import keep_check
from art_core.rewards.protocol import CheckedReward, GroupReward, RewardFunction, RewardLike, check_lent
from art_core.rewards.score import score_group
from art_core.scenario import Scenario, check_ids
from art_core.trajectory.trajectory import Trajectory, TrajectoryGroup

from .limits import Limits
from .protocol import Agent
from .runner import rollout

__all__ = ["BoundedRollouts", "check_groups"]

_NESTING = 4
"""How many synchronous nodes deep a rollout may wait for itself in the loop's executor."""


def check_groups(scenarios: Sequence[Scenario], **sizes: int) -> None:
    """Whether groups of rollouts can be made of ``scenarios``.

    Args:
        sizes: how many of something, by the name the caller knows it under.

    Raises:
        InputError: no scenario, an id that occurs twice, or a size below 1.
    """
    for name, value in sizes.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InputError(f"{name} must be a whole number of at least 1, got {value!r}")
    if not scenarios:
        raise InputError("there are no scenarios; at least one is needed")
    check_ids(scenarios)


@dataclass(slots=True, kw_only=True)
class BoundedRollouts:
    """To be made in the event loop that runs them, whose executor it sizes.

    ``on_rollout`` is called with every rollout that began, in the order they end.

    Raises:
        InputError: the reward asks the base model of a run, and none was lent to it.
    """

    agent: Agent
    policy: Policy
    reward: RewardLike | None
    concurrency: int
    limits: Limits
    evaluating: bool = False
    on_rollout: Callable[[Trajectory], None] | None
    _slots: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        check_lent(self.reward)
        workers.size_executor(self.concurrency * _NESTING)
        self._slots = asyncio.Semaphore(self.concurrency)

    async def run(self, scenario: Scenario, *, group_id: str, number: int, rng_parts: tuple[Any, ...]) -> Trajectory:
        """Rollout ``{group_id}-{number}``, as soon as there is room for it; scored unless the reward is one of groups."""
        async with self._slots:
            return await rollout(
                self.agent,
                scenario,
                self.policy,
                reward=self._each(),
                limits=self.limits,
                rollout_id=f"{group_id}-{number}",
                group_id=group_id,
                rng_parts=rng_parts,
                evaluating=self.evaluating,
                on_rollout=self._ended,
            )

    def _each(self) -> RewardFunction | None:
        """What scores a rollout as it ends."""
        if isinstance(self.reward, CheckedReward):
            return self.reward.check
        return None if isinstance(self.reward, GroupReward) else self.reward

    def _ended(self, trajectory: Trajectory) -> None:
        if isinstance(self.reward, CheckedReward):
            keep_check(trajectory)
        if self.on_rollout is not None:
            self.on_rollout(trajectory)

    async def score(self, group: TrajectoryGroup) -> None:
        """Ask a group reward about a complete group; any other has scored its rollouts already."""
        if isinstance(self.reward, GroupReward):
            await score_group(self.reward, group, seconds=self.limits.reward_seconds)
