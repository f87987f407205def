"""What language models were asked for a run, and what that cost: its judge, and who wrote and tried its scenarios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from art_core.rewards.account import Account

from .formats import number

__all__ = ["COST_COLUMNS", "costs"]

COST_COLUMNS = (
    "asked",
    "requests",
    "not answered",
    "not usable",
    "known before",
    "tokens in",
    "tokens out",
    "USD",
    "groups scored",
    "groups without a score",
)


def costs(rows: Sequence[Mapping[str, Any]], written: Mapping[str, Any]) -> list[list[str]]:
    """The cells of a table, a row for each that was asked; empty if nobody was.

    Args:
        rows: of metrics.jsonl; the judge's account is their sum.
        written: the table of that name in run.toml; empty if scenarios were given.
    """
    told = [row["judge"] for row in rows if "judge" in row]
    accounts = {
        "judge": Account.together(told) if told else None,
        "author of the scenarios": _read(written.get("author")),
        "grader of their dry run": _read(written.get("grader")),
    }
    return [_cells(who, account) for who, account in accounts.items() if account is not None]


def _read(told: Any) -> Account | None:
    return Account.together([told]) if isinstance(told, Mapping) else None


def _cells(who: str, account: Account) -> list[str]:
    about = f" ({number(account.estimated_calls)} estimated)" if account.estimated_calls else ""
    counts = (account.calls, account.failed, account.refused, account.cached)
    tokens = (f"{number(account.input_tokens)}{about}", f"{number(account.output_tokens)}{about}")
    groups = (number(account.groups), number(account.unscored)) if account.groups or account.unscored else ("–", "–")
    return [who, *map(number, counts), *tokens, number(account.usd, 4), *groups]
