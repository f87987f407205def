"""What a reward is: a function of one trajectory, or of a group of siblings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, runtime_checkable

from art_core.scenario import Scenario
from art_core.trajectory.trajectory import Reward, Trajectory, TrajectoryGroup

__all__ = ["GroupReward", "RewardFunction", "RewardLike"]

RewardFunction = Callable[[Trajectory, Scenario], "float | Reward | Awaitable[float | Reward]"]
"""Sync (run in a worker thread) or async. Called while ``trajectory.environment`` is still open."""


@runtime_checkable
class GroupReward(Protocol):
    """Scores siblings relative to each other."""

    async def score_group(self, group: TrajectoryGroup) -> list[Reward | None]:
        """One entry per sibling, in order; None where the score is missing."""
        ...


RewardLike = RewardFunction | GroupReward
