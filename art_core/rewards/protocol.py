"""What a reward is: a function of one trajectory, or of a group of siblings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol, runtime_checkable

from art_core.scenario import Scenario
from art_core.trajectory.trajectory import Reward, Trajectory, TrajectoryGroup

from .account import Account

__all__ = ["CheckedReward", "GroupReward", "PaidReward", "RewardFunction", "RewardLike", "ToldReward"]

RewardFunction = Callable[[Trajectory, Scenario], "float | Reward | Awaitable[float | Reward]"]
"""Sync (run in a worker thread) or async. Called while ``trajectory.environment`` is still open."""


@runtime_checkable
class GroupReward(Protocol):
    """Scores siblings relative to each other."""

    async def score_group(self, group: TrajectoryGroup) -> list[Reward | None]:
        """One entry per sibling, in order; None where the score is missing."""
        ...


@runtime_checkable
class CheckedReward(GroupReward, Protocol):
    """A group reward that also looks at each rollout as it ends."""

    check: RewardFunction
    """Called while ``trajectory.environment`` is open; what it says is kept in ``metadata["check"]``, for ``score_group``."""


@runtime_checkable
class PaidReward(Protocol):
    """A reward that asks somebody who takes something for it."""

    @property
    def account(self) -> Account:
        """What was asked so far."""
        ...

    @property
    def budget(self) -> float | None:
        """US dollars that it may cost; None for no limit."""
        ...

    def keep_in(self, directory: Path) -> None:
        """Remember answers there, so that a run which goes on pays for none twice."""
        ...

    async def close(self) -> None:
        """Close what is held open."""
        ...


@runtime_checkable
class ToldReward(Protocol):
    """A reward that does not score evaluations as it scores training."""

    @property
    def measured_by(self) -> dict[str, str]:
        """``success`` and ``reward`` → who says so in an evaluation, to be put after "Measured by"."""
        ...


RewardLike = RewardFunction | GroupReward
