"""A judge beside a function: added up, behind it as a gate, or watched by it.

The function scores each rollout when it ends, while its environment is open; what it said is kept with the rollout as ``metadata["check"]``.
The judge is asked when all siblings are there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from art_core.errors import InputError
from art_core.trajectory.trajectory import Reward, Trajectory, TrajectoryGroup

from .account import Account
from .protocol import Borrower, GroupReward, PaidReward, RewardFunction, ToldReward, borrower_of

__all__ = ["Combined", "keep_check"]

_CHECK = "check"


class Combined:
    """See ``rewards.protocol.CheckedReward``. Success is what the function says of it, as far as it says anything.

    Args:
        judge: scores siblings, such as a ``Ruler``.
        function: scores one rollout.
        by: how both come together. ``sum``: ``weight`` times the judge's score and the rest times the function's. ``gate``: the judge compares
            only rollouts that pass the function (success where it tells that, else a score above 0); all others get 0, and a single
            one that passes gets 1. ``beside``: the judge's score alone counts, and the function's is kept in the parts.
        weight: of the judge in a sum.

    Raises:
        InputError: another way, or a weight outside of 0 to 1.
    """

    def __init__(
        self,
        judge: GroupReward,
        function: RewardFunction,
        *,
        by: Literal["sum", "gate", "beside"] = "sum",
        weight: float = 0.5,
    ) -> None:
        if by not in ("sum", "gate", "beside"):
            raise InputError(f"a judge and a function are combined by sum, gate or beside, not by {by!r}")
        if not 0 <= weight <= 1:
            raise InputError(f"the weight of a judge is from 0 to 1, got {weight!r}")
        self.check = function
        self._judge, self._by, self._weight = judge, by, weight

    @property
    def account(self) -> Account:
        """See ``PaidReward``."""
        return self._judge.account if isinstance(self._judge, PaidReward) else Account()

    @property
    def budget(self) -> float | None:
        """See ``PaidReward``."""
        return self._judge.budget if isinstance(self._judge, PaidReward) else None

    @property
    def measured_by(self) -> dict[str, str]:
        """See ``ToldReward``. Success is what the function says."""
        name = getattr(self.check, "__name__", None) or type(self.check).__name__
        judge = self._judge.measured_by["reward"] if isinstance(self._judge, ToldReward) else "the judge"
        reward = judge if self._by == "beside" else f"{name}, and {judge}"
        return {"success": f"{name}, in which the judge has no part", "reward": reward}

    def keep_in(self, directory: Path) -> None:
        """See ``PaidReward``."""
        if isinstance(self._judge, PaidReward):
            self._judge.keep_in(directory)

    @property
    def borrower(self) -> Borrower | None:
        """See ``LocalReward``."""
        return borrower_of(self._judge)

    async def close(self) -> None:
        """Close what the judge holds open."""
        if isinstance(self._judge, PaidReward):
            await self._judge.close()

    async def score_group(self, group: TrajectoryGroup) -> list[Reward | None]:
        """One entry per sibling, in order; None where the function gave no score, with its reason.

        Raises:
            JudgeError: the judge has no scores.
        """
        checks = [_check_of(trajectory) for trajectory in group]
        alone = bool(group.metadata.get("evaluating"))
        wanted = [n for n, check in enumerate(checks) if check is not None and (self._by != "gate" or _passes(check))]
        if self._by == "gate" and len(wanted) < 2 and not alone:
            scores: dict[int, Reward | None] = {
                n: Reward(1.0, reason="the only one that passed the check") for n in wanted
            }
        else:
            scores = await self._asked(group, wanted)
        return [
            None if check is None else self._together(check, scores.get(number), asked=number in wanted)
            for number, check in enumerate(checks)
        ]

    async def _asked(self, group: TrajectoryGroup, wanted: list[int]) -> dict[int, Reward | None]:
        if not wanted:
            return {}
        siblings = [group.trajectories[number] for number in wanted]
        some = TrajectoryGroup(
            scenario=group.scenario, trajectories=siblings, group_id=group.group_id, metadata=group.metadata
        )
        return dict(zip(wanted, await self._judge.score_group(some), strict=True))

    def _together(self, check: Reward, judged: Reward | None, *, asked: bool) -> Reward | None:
        if not asked:
            return Reward(
                0.0,
                check.success,
                {**check.parts, "check": check.value},
                reason=f"did not pass the check: {check.reason}",
            )
        if judged is None:
            return None
        value = judged.value
        if self._by == "sum":
            value = self._weight * judged.value + (1 - self._weight) * check.value
        parts = {**check.parts, "check": check.value, "judge": judged.value}
        reason = " | ".join(filter(None, (judged.reason, check.reason)))
        return Reward(value, judged.success if check.success is None else check.success, parts, reason)


def keep_check(trajectory: Trajectory) -> None:
    """Move the score that a function gave into ``metadata["check"]``: it is not the reward yet. A missing one stays missing."""
    if trajectory.reward is None:
        return
    trajectory.metadata[_CHECK] = {
        "value": trajectory.reward,
        "success": trajectory.success,
        "parts": dict(trajectory.reward_parts),
        "reason": trajectory.reward_reason,
    }
    trajectory.unscore("")


def _check_of(trajectory: Trajectory) -> Reward | None:
    kept: dict[str, Any] | None = trajectory.metadata.get(_CHECK)
    return None if kept is None else Reward(**kept)


def _passes(check: Reward) -> bool:
    return check.value > 0 if check.success is None else check.success
