"""What a judge costs a run, by its rows: every row says what its stretch cost, so a resumed run knows what was spent before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from art_core.rewards.account import Account
from art_core.rewards.protocol import PaidReward

from .stopping import Clock

__all__ = ["Meter", "account_of", "keep_answers_of", "purse"]

_COLUMN = "judge"
_RECENT = 3


class Meter:
    """Reads the account of a reward that costs something; of others it says nothing."""

    def __init__(self, reward: object, directory: Path) -> None:
        self._paid = reward if isinstance(reward, PaidReward) else None
        self._read = Account() if self._paid is None else self._paid.account.copy()
        keep_answers_of(reward, directory)

    @property
    def budget(self) -> float | None:
        """US dollars that the run may cost; None for no limit."""
        return None if self._paid is None else self._paid.budget

    def begin(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Go on from what ``rows`` have spent: the budget is one of the run, not of a call."""
        if self._paid is not None and self._paid.account.usd is not None:
            self._paid.account.usd += account_of(rows).usd or 0.0
            self._read = self._paid.account.copy()

    def figures(self) -> dict[str, Any]:
        """``judge``: what was asked since this was last called; nothing where nobody is paid."""
        if self._paid is None:
            return {}
        stretch, self._read = self._paid.account.minus(self._read), self._paid.account.copy()
        return {_COLUMN: stretch.to_dict()}


def keep_answers_of(reward: object, directory: Path) -> None:
    """Let a reward that costs something remember its answers in the run's ``directory``."""
    if isinstance(reward, PaidReward):
        reward.keep_in(directory / "judge")


def account_of(rows: Sequence[Mapping[str, Any]]) -> Account:
    """What all rows together have asked."""
    return Account.together([row[_COLUMN] for row in rows if _COLUMN in row])


def purse(rows: Sequence[Mapping[str, Any]], budget: float | None) -> Clock | None:
    """What is known of the money that a run has and needs; None without a budget."""
    if budget is None:
        return None
    steps = [row for row in rows if row["kind"] == "train"]
    last = {row["split"]: row for row in rows if row["kind"] == "eval"}
    return Clock(
        limit=budget,
        spent=sum(map(_usd, rows)),
        step=max(map(_usd, steps[-_RECENT:]), default=0.0),
        closing=sum(map(_usd, last.values())),
    )


def _usd(row: Mapping[str, Any]) -> float:
    return (row.get(_COLUMN) or {}).get("usd") or 0.0
