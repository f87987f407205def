"""RunResult: what a run came to, for printing and for code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .evaluate import Evaluation, Gain

__all__ = ["RunResult"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a run came to. ``print(result)`` shows it."""

    run_dir: Path
    adapter: Path | None
    """The LoRA chosen by validation (the last one without validation); None if no step was completed."""
    before: Evaluation | None
    """The model as it was before training on the test scenarios; None if there are none."""
    after: Evaluation | None
    """The chosen LoRA on them; None if the run was interrupted before."""
    gain: Gain | None
    warm_start: Evaluation | None = None
    """What the run began from, after its warm start, on them; None without one."""
    stop_reason: str
    summary: Mapping[str, Any]
    """What summary.json holds."""

    def __str__(self) -> str:
        lines = [f"{self.summary['base_model']}, {self.summary['steps']} steps: {self.summary['stop_text']}"]
        lines += [_line(name, part) for name, part in self._measured() if part]
        if self.gain and self.gain.difference is not None:
            interval = _interval(self.gain.ci95, signed=True)
            lines.append(f"gain    {self.gain.difference:+.3f} {self.gain.measure}{interval}, paired, n={self.gain.n}")
        if over := self.summary.get("warm_start"):
            lines += [f"        {_over(over['gain'])}"] if over["gain"] else []
        lines.append(f"LoRA    {self.adapter or 'none: no step was completed'}")
        lines.append(f"run     {self.run_dir}")
        return "\n".join(lines)

    def _measured(self) -> tuple[tuple[str, Evaluation | None], ...]:
        return (("before", self.before), ("warm", self.warm_start), ("after", self.after))


def _line(name: str, part: Evaluation) -> str:
    figures = [f"{part.figure:.3f} {part.measure}{_interval(part.ci95)}" if part.figure is not None else "no score"]
    if part.measure == "success" and part.reward is not None:
        figures.append(f"reward {part.reward:.3f}")
    figures.append(f"n={part.n}")
    if part.missing:
        figures.append(f"{part.missing} without a score")
    return f"{name:<7} {', '.join(figures)}"


def _over(gain: Mapping[str, Any]) -> str:
    """The gain over the warm start, in a line."""
    interval = _interval(gain["ci95"], signed=True)
    return f"{gain['difference']:+.3f} {gain['measure']}{interval} over the warm start alone, paired, n={gain['n']}"


def _interval(bounds: tuple[float, float] | None, *, signed: bool = False) -> str:
    if bounds is None:
        return ""
    low, high = (f"{bound:+.3f}" if signed else f"{bound:.3f}" for bound in bounds)
    return f" [{low}, {high}]"
