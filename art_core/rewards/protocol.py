"""What a reward is: a function of one trajectory, or of a group of siblings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from art_core.errors import InputError
from art_core.scenario import Scenario
from art_core.trajectory.trajectory import Reward, Trajectory, TrajectoryGroup

from .account import Account

if TYPE_CHECKING:
    from art_core.inference.base_model import BaseModel

__all__ = [
    "Borrower",
    "CheckedReward",
    "GroupReward",
    "LocalReward",
    "PaidReward",
    "RewardFunction",
    "RewardLike",
    "ToldReward",
    "borrower_of",
    "check_lent",
]

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


class Borrower(Protocol):
    """Something that asks the base model of the run it is used in."""

    @property
    def wanted(self) -> str | None:
        """The model it has to be; None for that of any run."""
        ...

    @property
    def lent(self) -> bool:
        """Whether there is a model to ask."""
        ...

    def lend(self, base: BaseModel) -> None:
        """Ask that one from now on.

        Raises:
            InputError: it is another one than ``wanted``.
        """
        ...


@runtime_checkable
class LocalReward(Protocol):
    """A reward that may ask the base model of the run it is used in."""

    @property
    def borrower(self) -> Borrower | None:
        """What asks it; None if nothing does."""
        ...


RewardLike = RewardFunction | GroupReward


def borrower_of(reward: object) -> Borrower | None:
    """What of a reward asks the base model, if anything does."""
    return reward.borrower if isinstance(reward, LocalReward) else None


def check_lent(reward: object) -> None:
    """
    Raises:
        InputError: the reward asks the base model of a run, and there is none.
    """
    borrower = borrower_of(reward)
    if borrower is not None and not borrower.lent:
        raise InputError(
            "the judge is the base model of a run, which only that run's engine can ask, and there is none here; give "
            "provider/model, model@URL or a function of messages"
        )
