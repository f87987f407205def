"""The verdict of a run in words: what the held-out evaluations before and after support, and no more than that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Verdict", "verdict"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One sentence, its evidence, and the two measurements it rests on."""

    tone: Literal["gain", "loss", "open", "none"]
    """``open``: the interval of the difference holds 0, or there is none."""
    headline: str
    evidence: str
    measure: Literal["success", "reward"]
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


def verdict(summary: Mapping[str, Any], eval_rows: Sequence[Mapping[str, Any]]) -> Verdict:
    """What can be said.

    ``summary`` is what summary.json holds (empty if the run has not ended); ``eval_rows`` are those of metrics.jsonl.
    """
    before = summary.get("before") or _row(eval_rows, "before")
    after = summary.get("after") or _row(eval_rows, "after")
    rates = [row.get("success") for row in (before, after) if row]
    measure: Literal["success", "reward"] = "success" if rates and None not in rates else "reward"
    if not before or not after or before.get(measure) is None or after.get(measure) is None:
        return _unfinished(measure, before, after)
    low, high = _bounds(summary.get("gain"))
    noun = "Success on held-out test scenarios" if measure == "success" else "Mean reward on held-out test scenarios"
    values = f"from {shown(measure, before[measure])} to {shown(measure, after[measure])}"
    tone: Literal["gain", "loss", "open"] = "open"
    if low is None or high is None:
        headline = f"{noun} went {values}."
        evidence = "No interval of the difference was stored, so this says nothing about chance."
    elif low > 0:
        tone, headline = "gain", f"{noun} rose {values}."
        evidence = (
            f"The same scenarios before and after differ by {_range(measure, low, high)}: more than chance explains."
        )
    elif high < 0:
        tone, headline = "loss", f"{noun} fell {values}."
        evidence = (
            f"The same scenarios before and after differ by {_range(measure, low, high)}: training made it worse."
        )
    else:
        headline = f"No reliable change: {noun[0].lower()}{noun[1:]} went {values}."
        evidence = (
            f"The 95 % interval of the difference is {_range(measure, low, high)}, which includes no change at all."
        )
    if told := (summary.get("measured_by") or {}).get(measure):
        evidence += f" Measured by {told}."
    return Verdict(tone=tone, headline=headline, evidence=evidence, measure=measure, before=before, after=after)


def shown(measure: str, value: float) -> str:
    """A success rate in percent, a reward with three digits.

    >>> shown("success", 0.475), shown("reward", 0.475)
    ('47.5 %', '0.475')
    """
    return f"{100 * value:.1f}".removesuffix(".0") + " %" if measure == "success" else f"{value:.3f}"


def _range(measure: str, low: float, high: float) -> str:
    if measure == "success":
        return f"{100 * low:+.1f} to {100 * high:+.1f} points".replace("-", "−")
    return f"{low:+.3f} to {high:+.3f}".replace("-", "−")


def _unfinished(
    measure: Literal["success", "reward"], before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> Verdict:
    if before and before.get(measure) is not None:
        headline = "This run has no final evaluation."
        evidence = f"Before training the {measure} on held-out test scenarios was {shown(measure, before[measure])}."
    else:
        headline, evidence = "This run has no evaluation on held-out scenarios.", "Nothing can be said about a gain."
    return Verdict(tone="none", headline=headline, evidence=evidence, measure=measure, before=before, after=after)


def _row(rows: Sequence[Mapping[str, Any]], label: str) -> Mapping[str, Any] | None:
    return next((row for row in reversed(rows) if row.get("label") == label and row.get("split") == "test"), None)


def _bounds(gain: Any) -> tuple[float, float] | tuple[None, None]:
    bounds = gain.get("ci95") if isinstance(gain, Mapping) else None
    if isinstance(bounds, Sequence) and len(bounds) == 2 and None not in bounds:
        return float(bounds[0]), float(bounds[1])
    return None, None
