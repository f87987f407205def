"""How far passes that are equal on paper lie apart on a machine, and the bounds for others that are made of it.

**Noise floor.** Two passes over the same rows, in the same precision and by the plain code of transformers, that are equal on
paper and differ only in the order of their sums. In bfloat16 the distance of such a pass from the one in float32 is
measured too, and the larger counts: sampler and trainer round in different places there, which no change of order shows
in a shallow model. A floor is never below one unit in the last place of the largest logprob. The noise of a token
grows with its uncertainty, so a floor belongs to its rows: it holds for these and for rows the model is surer of.

**Bounds.** A mean gap may be so many times its floor, a largest gap and a gradient's distance so many times theirs:
``MULTIPLES``. The largest of many varies more between equal passes than their mean does. In float32 the multiples are
wide, because what is wrong is wrong by a thousand times the floor and more, and what is right may differ from plain code by
more than the order of its sums; but no bound exceeds a ceiling, however noisy the machine: ``CEILING`` nats for a
logprob, which is about 1e-5 of a logit, and ``GRADIENT_CEILING`` for a gradient. bfloat16 has no ceiling: equal passes of
a 135M-parameter model differ by 0.03 nats on average, by 0.3 at most and by 5 % in the gradient. Its bounds find what is
wrong by more (a temperature, an adapter folded in twice) and cannot find a scale that is a tenth off; those of float32
find both. What is to be proven is therefore proven in float32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from art_core.models.config import Precision
from art_core.trajectory.samples import TrainingSample

__all__ = ["Floor", "Gap", "Logprobs", "Rows", "gap", "noise_floor"]

MULTIPLES: Mapping[Precision, tuple[float, float, float]] = {"float32": (10.0, 20.0, 10.0), "bfloat16": (3.0, 5.0, 4.0)}
"""Of the floor, for a mean gap, a largest gap and a gradient's distance."""
CEILING, GRADIENT_CEILING = 1e-4, 1e-4

_UNIT: Mapping[Precision, float] = {"float32": 2.0**-23, "bfloat16": 2.0**-8}

Logprobs = Sequence[NDArray[np.float32]]
Rows = Sequence[TrainingSample]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """How far two sets of logprobs of the same tokens lie apart, in nats."""

    tokens: int
    mean: float
    """Of the absolute differences."""
    largest: float
    kl: float
    """Estimate of KL(second || first): mean of ``r - 1 - log r`` with r the first's probability over the second's."""
    differences: NDArray[np.float64] = field(repr=False)
    """(tokens,) first minus second."""
    scale: float
    """The largest absolute logprob of the second."""

    def beyond(self, bound: float) -> float:
        """The share of tokens whose difference is larger than ``bound``."""
        return float((~(np.abs(self.differences) <= bound)).mean())


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """What equal passes differ by on this machine; see the head of this module."""

    precision: Precision
    mean: float
    largest: float
    gradient: float
    """Relative L2 distance."""
    tokens: int
    """Trained tokens it was measured on."""

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds of a mean and of a largest gap."""
        mean, largest, _ = MULTIPLES[self.precision]
        return self._capped(mean * self.mean, CEILING), self._capped(largest * self.largest, CEILING)

    @property
    def gradient_bound(self) -> float:
        """The bound of a gradient's distance."""
        return self._capped(MULTIPLES[self.precision][2] * self.gradient, GRADIENT_CEILING)

    def _capped(self, bound: float, ceiling: float) -> float:
        return min(bound, ceiling) if self.precision == "float32" else bound


def gap(first: Logprobs, second: Logprobs, rows: Rows) -> Gap:
    """Compare per-row (L,) logprobs at the trained tokens of ``rows``."""
    pairs = [
        (one[row.mask].astype(np.float64), two[row.mask].astype(np.float64))
        for one, two, row in zip(first, second, rows, strict=True)
    ]
    differences = np.concatenate([one - two for one, two in pairs])
    sizes = np.abs(differences)
    with np.errstate(over="ignore"):
        divergences = np.exp(differences) - 1 - differences
    return Gap(
        tokens=len(differences),
        mean=float(sizes.mean()),
        largest=float(sizes.max()),
        kl=float(divergences.mean()),
        differences=differences,
        scale=float(max(np.abs(two).max() for _, two in pairs)),
    )


def noise_floor(gaps: Sequence[Gap], distances: Sequence[float], *, precision: Precision) -> Floor:
    """The floor of several pairs of equal passes: the largest of each figure.

    Args:
        gaps: of their logprobs. ``distances``: of their gradients, relative.
    """
    least = _UNIT[precision] * max(1.0, *(found.scale for found in gaps))
    return Floor(
        precision=precision,
        mean=max(least / 4, *(found.mean for found in gaps)),  # rounding to a unit errs by a quarter of it on average
        largest=max(least, *(found.largest for found in gaps)),
        gradient=max(_UNIT[precision], *distances),
        tokens=gaps[0].tokens,
    )
