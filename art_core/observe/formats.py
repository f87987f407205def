"""Figures as people read them, the same on a terminal and in a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["duration", "interval", "number", "percent", "signed"]


def duration(seconds: float) -> str:
    """``48s``, ``2m10s``, ``1h04m``."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}m{rest:02d}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02d}m"


def percent(value: float | None) -> str:
    """A share as ``25 %``; a dash if it is missing."""
    return "–" if value is None else f"{100 * value:.0f} %"


def signed(measure: str | None) -> Callable[[float | None], str]:
    """How a difference of a measure is shown: ``+12 pts`` of success, ``−0.120`` of others; a dash if it is missing."""
    return _signed_points if measure == "success" else _signed_number


def _signed_points(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:+.0f} pts".replace("-", "−")


def _signed_number(value: float | None) -> str:
    return "–" if value is None else f"{value:+.3f}".replace("-", "−")


def interval(bounds: Sequence[float | None] | None, show: Callable[[float | None], str]) -> str:
    """``[12 %, 31 %]``; empty if there is none."""
    return f"[{show(bounds[0])}, {show(bounds[1])}]" if bounds and len(bounds) == 2 and None not in bounds else ""


def number(value: Any, digits: int = 3) -> str:
    """Whole numbers with thousands separators, others with ``digits`` digits too, anything else as it is; a dash if it is missing."""
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.{digits}f}".replace("-", "−") if isinstance(value, float) else str(value)
