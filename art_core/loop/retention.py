"""Which checkpoint is the best and which ones are kept: pure functions of a run's rows and of what is on disk.

Every checkpoint has at most one figure. A validation after step k measures checkpoint k. The training row of step k
was measured with the weights the step began with, so its figures are those of checkpoint k - 1; the newest checkpoint
has none yet. A run that begins from an adapter has that as checkpoint 0, measured by the last validation before step 1; of
the base model there is no checkpoint, and a run that begins from it has its ``first`` one after step 1. Without a named metric checkpoints compare by the success of their validation, then by its mean reward.

The rule of deletion:

1. The newest N stay. Whatever is still to be measured is the newest one, or the one before it, when it is measured.
2. The best one so far stays: of equal ones the later.
3. As long as no figure is known, nothing has been compared, and nothing is deleted. Only a run that names no metric and
   has no validation yet (or none at all: its last adapter is the result) keeps the newest N alone.
4. A checkpoint later than the step the run stands at is left alone and counts for nothing: it is a damaged one, which
   the run will come to again.

A figure that is missing or not a finite number is none, and the checkpoint is treated as one that was not measured. So a
checkpoint goes only when N newer ones are there, and another one that was measured to be the best.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from .figures import Metric, Row

__all__ = ["Mode", "Score", "best_step", "figures_of", "kept_steps", "score", "validations", "without_figure"]

Mode = Literal["max", "min"]
Score = tuple[float, ...]
"""What is compared; larger is better."""


def best_step(
    rows: Sequence[Row],
    metric: str | None = None,
    mode: Mode = "max",
    *,
    first: int = 1,
    among: Collection[int] | None = None,
) -> int | None:
    """The step whose checkpoint is the best, the later of equals; None if none has a figure.

    Args:
        rows: those of metrics.jsonl so far.
        metric: see ``figures.Metric``; None for success, then mean reward, of the validations.
        mode: whether more or less of it is better.
        first: the step of the run's first checkpoint: 0 if it begins from an adapter, else 1.
        among: the steps to choose from; None for all.
    """
    figures = figures_of(rows, metric, mode, first)
    candidates = [step for step in figures if among is None or step in among]
    return max(candidates, key=lambda step: (figures[step], step), default=None)


def kept_steps(
    rows: Sequence[Row],
    on_disk: Collection[int],
    *,
    step: int,
    keep: int,
    metric: str | None = None,
    mode: Mode = "max",
    first: int = 1,
) -> set[int]:
    """Which of the checkpoints on disk stay.

    Args:
        step: where the run stands; its last whole checkpoint is that of this step.
        keep: how many of the newest ones stay in any case.
    """
    done = sorted(number for number in on_disk if number <= step)
    later = set(on_disk) - set(done)
    best = best_step(rows, metric, mode, first=first, among=done)
    if best is None and (metric is not None or _measured(rows, metric, first)):
        return set(on_disk)
    return later | set(done[-keep:]) | ({best} if best is not None else set())


def figures_of(
    rows: Sequence[Row], metric: str | None = None, mode: Mode = "max", first: int = 1
) -> Mapping[int, Score]:
    """Step → what its checkpoint is worth, for those that have a figure. Of two rows of one step the later counts."""
    found: dict[int, Score] = {}
    lag = 1 if metric is not None and Metric.parse(metric).source == "train" else 0
    for row in _measured(rows, metric, first):
        worth = score(row, metric, mode)
        if worth is None:
            found.pop(row["step"] - lag, None)
        elif row["step"] - lag >= first:
            found[row["step"] - lag] = worth
    return found


def without_figure(rows: Sequence[Row], metric: str, first: int = 1) -> str | None:
    """One sentence if rows that should carry the metric are there and none does, naming those they carry; else None."""
    asked, measured = Metric.parse(metric), _measured(rows, metric, first)
    if not measured or any(asked.of(row) is not None for row in measured):
        return None
    kind = "validations" if asked.source == "validation" else "training steps"
    return (
        f"best_metric {metric!r} is missing or not finite in all {kind} so far, so no checkpoint is the best and none is "
        f"deleted; they do have {', '.join(asked.present(measured)) or 'none'}"
    )


def score(row: Row, metric: str | None = None, mode: Mode = "max") -> Score | None:
    """What a row is worth; None if it has no figure."""
    if metric is not None:
        value = Metric.parse(metric).of(row)
        return None if value is None else (value if mode == "max" else -value,)
    values = [Metric.parse(f"validation.{name}").of(row) for name in ("success", "reward")]
    if values == [None, None]:
        return None
    return tuple(-math.inf if value is None else value for value in values)


def validations(rows: Sequence[Row]) -> list[Row]:
    """The rows of evaluations on the validation scenarios, that of the untrained model included."""
    return [row for row in rows if row["kind"] == "eval" and row["split"] == "validation"]


def _measured(rows: Sequence[Row], metric: str | None, first: int) -> list[Row]:
    """The rows that would carry the metric of a checkpoint."""
    if metric is not None and Metric.parse(metric).source == "train":
        return [row for row in rows if row["kind"] == "train"]
    return [row for row in validations(rows) if row["step"] >= first]
