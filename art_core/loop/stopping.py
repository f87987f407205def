"""When a run stops: a pure function of the rows it has written.

Nothing here is remembered between calls, so a resumed run decides exactly as an uninterrupted one. Only the clock of
``max_time`` starts anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from art_core.observe.ledger import FATES, MEANINGS, Ledger

from .config import TrainConfig
from .figures import Metric
from .retention import Score, score, validations

__all__ = ["Clock", "Stop", "StopReason", "why_stop"]

StopReason = Literal["steps", "max_time", "budget", "target", "patience", "no_spread", "interrupted", "error"]

Rows = Sequence[Mapping[str, Any]]
_MARGIN = 1.15  # steps and evaluations vary; the last evaluation should still fit


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Why a run ended, as a word and as a sentence."""

    reason: StopReason
    text: str


@dataclass(slots=True, kw_only=True)
class Clock:
    """What is known of what this call has and needs: seconds, or the US dollars of a judge."""

    limit: float | None
    """What the call may take."""
    spent: float = 0.0
    step: float = 0.0
    """The most that one of the last steps took."""
    closing: float = 0.0
    """What the evaluations at the end will take, as far as was measured."""

    @property
    def up(self) -> bool:
        """Whether one more step would not leave enough time for the evaluations at the end."""
        return self.limit is not None and self.spent + (self.step + self.closing) * _MARGIN > self.limit


def why_stop(rows: Rows, config: TrainConfig, clock: Clock, purse: Clock | None = None) -> Stop | None:
    """Why there should be no further step; None to go on.

    Args:
        rows: those of metrics.jsonl so far.
        clock: of this call; at least one step is made whatever it says.
        purse: the same of the money that a judge may cost.
    """
    train = [row for row in rows if row["kind"] == "train"]
    if stop := _converged(validations(rows), config):
        return stop
    if len(train) >= config.steps:
        return Stop(reason="steps", text=f"all {config.steps} steps are done")
    flat = _flat_streak(train)
    if flat >= config.flat_steps:
        return Stop(reason="no_spread", text=_why_flat(train[-flat:]))
    if clock.step > 0 and clock.up:
        return Stop(reason="max_time", text=f"the {clock.limit:g} s it may take are used up")
    if purse is not None and purse.step > 0 and purse.up:
        return Stop(
            reason="budget",
            text=f"what is left of the judge's {purse.limit:g} USD is needed for the evaluations at the end",
        )
    return None


def _converged(measured: Rows, config: TrainConfig) -> Stop | None:
    if not measured:
        return None
    last = measured[-1]
    figure = last.get("success") if last.get("success") is not None else last.get("reward")
    if config.target is not None and figure is not None and figure >= config.target and last["label"] == "step":
        return Stop(reason="target", text=f"validation reached {figure:.3g}, the target is {config.target:g}")
    since = _since_best(measured, config)
    if config.patience is not None and since >= config.patience:
        return Stop(reason="patience", text=f"{since} validations in a row brought no new best")
    return None


def _since_best(measured: Rows, config: TrainConfig) -> int:
    """Validations since the best one, by ``best_metric`` where that is a figure of validations."""
    named = config.best_metric
    metric = named if named is not None and Metric.parse(named).source == "validation" else None
    best: Score | None = None
    since = 0
    for row in measured:
        worth = score(row, metric, config.best_mode if metric else "max")
        if worth is not None and (best is None or worth > best):
            best, since = worth, 0
        elif row["label"] == "step":
            since += 1
    return since


def _why_flat(flat: Rows) -> str:
    """What became of the rollouts of steps that trained nothing."""
    total = Ledger()
    for row in flat:
        total = total + Ledger.from_dict(row["ledger"])
    fates = {name: total[name].rollouts for name in (*FATES, "masked_by_ratio")}
    lost = {
        name: count for name, count in fates.items() if count and name not in ("trained", "no_spread", "not_selected")
    }
    if fates["no_spread"] or not lost:
        return (
            f"in {len(flat)} steps in a row all siblings scored the same, so there was nothing to learn from; the task may be "
            "too hard or too easy for this model, or the reward too coarse"
        )
    told = ", ".join(f"{count} {name.replace('_', ' ')} ({MEANINGS[name]})" for name, count in lost.items())
    return f"in {len(flat)} steps in a row nothing could be trained; of {total['sampled'].rollouts} rollouts: {told}"


def _flat_streak(train: Rows) -> int:
    streak = 0
    for row in reversed(train):
        if row["updated"]:
            break
        streak += 1
    return streak
