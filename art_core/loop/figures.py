"""The figures by which checkpoints can be compared: which ones the rows of metrics.jsonl carry, and how one is named.

A name is a column of the validation rows (``reward``) or, where those have none of that name, of the training rows
(``kl_behaviour``). ``train.success`` and ``validation.success`` say which of the two is meant, ``reward_parts.format`` is
one part of the reward. What a clock decides (seconds, tokens per second) is no figure: two runs of one configuration
would choose differently by it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from art_core.errors import InputError

__all__ = ["PARTS", "REPORTED", "TRAIN", "VALIDATION", "Metric", "Row", "Source", "mean_parts"]

Row = Mapping[str, Any]
"""One of metrics.jsonl."""
Source = Literal["validation", "train"]

PARTS = "reward_parts"
"""The column with the mean of each part of the reward."""

VALIDATION = ("reward", "success", "n", "missing")
"""Figures of an evaluation."""

REPORTED = (
    "loss",
    "grad_norm",
    "learning_rate",
    "ratio_mean",
    "clip_fraction",
    "kl_behaviour",
    "kl_base",
    "entropy",
    "forward_tokens",
    "micro_batch_tokens",
)
"""What a training row takes over from the trainer's report; null in a step that trained nothing."""

TRAIN = ("reward_mean", "reward_std", "success", "trained_tokens", "sampled_tokens", *REPORTED)
"""Figures of a training step."""

_COLUMNS: Mapping[Source, tuple[str, ...]] = {"validation": VALIDATION, "train": TRAIN}


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One figure of one kind of row.

    >>> Metric.parse("kl_behaviour").source, Metric.parse("train.success").source
    ('train', 'train')
    """

    name: str
    """As it was given."""
    source: Source
    column: str
    part: str | None = None
    """Which part of the reward, in the column ``reward_parts``."""

    @classmethod
    def parse(cls, name: str) -> Self:
        """The figure of that name. Whether the reward has a part of some name shows only when it has scored.

        Raises:
            InputError: no row can have it; the message lists those there are.
        """
        prefix, _, rest = name.partition(".")
        asked: tuple[Source, ...] = ("validation", "train")
        path = name
        for source in asked:
            if prefix == source and rest:
                asked, path = (source,), rest
        column, dot, part = path.partition(".")
        if column == PARTS and part:
            return cls(name=name, source=asked[0], column=column, part=part)
        for source in asked:
            if not dot and column in _COLUMNS[source]:
                return cls(name=name, source=source, column=column)
        raise InputError(
            f"best_metric {name!r} is no figure of a run; of validations there are {', '.join(VALIDATION)}, of training "
            f"steps {', '.join(TRAIN)}, and of both {PARTS}.<name>; write train.success for the one of training steps"
        )

    def of(self, row: Row) -> float | None:
        """Its value in a row of its kind; None where it is missing or not a finite number."""
        value = row.get(self.column)
        if self.part is not None:
            value = value.get(self.part) if isinstance(value, Mapping) else None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return None
        return float(value)

    def present(self, rows: Sequence[Row]) -> list[str]:
        """The names of the figures that rows of its kind do have."""
        parts = {part: None for row in rows for part in row.get(PARTS) or {}}
        names = [*_COLUMNS[self.source], *(f"{PARTS}.{part}" for part in parts)]
        return [
            name for name in names if any(Metric.parse(f"{self.source}.{name}").of(row) is not None for row in rows)
        ]


def mean_parts(parts: Sequence[Mapping[str, float]]) -> dict[str, float | None]:
    """The mean of each part of the reward over the rollouts that have it, without values that are not finite."""
    found: dict[str, list[float]] = {}
    for one in parts:
        for name, value in one.items():
            found.setdefault(name, []).extend([value] if math.isfinite(value) else [])
    return {name: math.fsum(values) / len(values) if values else None for name, values in sorted(found.items())}
