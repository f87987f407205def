"""What a run came to for each of its adapters, from the rows of its training steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .ledger import Ledger

__all__ = ["AdapterAccount", "accounts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterAccount:
    """One adapter."""

    name: str
    version: str
    """The last one."""
    updates: int
    """Steps that changed it."""
    ledger: Ledger
    """Rollouts it answered in, and its tokens."""
    last: Mapping[str, Any]
    """The figures of the last step that changed it; empty if none did."""

    def to_dict(self) -> dict[str, Any]:
        """For summary.json."""
        return {"version": self.version, "updates": self.updates, "ledger": self.ledger.to_dict()}


def accounts(train_rows: Sequence[Mapping[str, Any]]) -> list[AdapterAccount]:
    """In the order the adapters were named; none for a run that trains only one."""
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for row in train_rows:
        for name, figures in (row.get("adapters") or {}).items():
            by_name.setdefault(name, []).append(figures)
    return [_account(name, figures) for name, figures in by_name.items()]


def _account(name: str, steps: Sequence[Mapping[str, Any]]) -> AdapterAccount:
    updates = [step for step in steps if step["updated"]]
    ledgers = (Ledger.from_dict(step["ledger"]) for step in steps if step["ledger"])
    return AdapterAccount(
        name=name,
        version=steps[-1]["version"],
        updates=len(updates),
        ledger=sum(ledgers, Ledger()),
        last=updates[-1] if updates else {},
    )
