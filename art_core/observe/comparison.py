"""A comparison as a table: the same cells on a terminal and in the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .formats import interval, number, percent, signed

__all__ = ["COLUMNS", "cells", "difference"]

COLUMNS = (
    *("answered by", "success", "reward", "95 % interval", "n", "missing", "tokens in", "tokens out"),
    *("USD per 1,000 tasks", "p50 s", "p95 s", "trained − this"),
)
"""Tokens are those of a task, on average."""


def cells(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """The row of an entry of ``compare`` in summary.json; what is not known is a dash."""
    show = percent if entry["measure"] == "success" else number
    tokens, latency = entry["tokens"], entry["latency_s"]
    gain = entry.get("trained_minus_this") or {}
    return (
        str(entry["subject"]),
        percent(entry["success"]),
        number(entry["reward"]),
        interval(entry["ci95"], show),
        str(entry["n"]),
        str(entry["missing"]),
        _each(tokens["input"], entry["rollouts"]),
        _each(tokens["output"], entry["rollouts"]),
        number(entry["usd_per_1000_tasks"], 2),
        number(latency["p50"], 2),
        number(latency["p95"], 2),
        difference(gain),
    )


def difference(gain: Mapping[str, Any]) -> str:
    """A paired difference with its interval; a dash if there is none."""
    if gain.get("difference") is None:
        return "–"
    show = signed(gain["measure"])
    return f"{show(gain['difference'])} {interval(gain['ci95'], show)}".strip()


def _each(total: int | None, count: int) -> str:
    return "–" if total is None or not count else f"{total / count:,.0f}"
