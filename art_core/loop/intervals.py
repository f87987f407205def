"""95 % intervals for what an evaluation measured: pure functions of the outcomes, the same bits on every call.

Rates: Wilson (1927), Probable inference, the law of succession, and statistical inference. Paired difference of two
rates: Newcombe (1998), Improved confidence intervals for the difference between binomial proportions based on paired
data, method 10. Means and their paired differences: percentile bootstrap over scenarios, Efron and Tibshirani (1993),
An introduction to the bootstrap, chapter 13, with a fixed seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

__all__ = ["BOOTSTRAP", "Interval", "NEWCOMBE", "WILSON", "bootstrap_mean", "newcombe_paired", "wilson"]

Interval = tuple[float, float]

WILSON = "wilson"
NEWCOMBE = "newcombe-paired"
BOOTSTRAP = "bootstrap-percentile"

_Z = 1.959963984540054  # 97.5 % quantile of the standard normal distribution
_RESAMPLES = 10_000


def wilson(successes: int, n: int) -> Interval | None:
    """Interval of a success rate; None for ``n = 0``.

    >>> tuple(round(x, 4) for x in wilson(5, 10))
    (0.2366, 0.7634)
    """
    if n == 0:
        return None
    rate, z2 = successes / n, _Z * _Z
    centre = (rate + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z * math.sqrt(rate * (1 - rate) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return (0.0 if successes == 0 else centre - half, 1.0 if successes == n else centre + half)


def newcombe_paired(before: Sequence[bool], after: Sequence[bool]) -> Interval | None:
    """Interval of rate(after) − rate(before), where entry ``i`` of both is the same scenario; None without pairs.

    Unlike a bootstrap it stays honest when few or no scenarios changed.
    """
    n = len(after)
    if n == 0:
        return None
    both = sum(a and b for a, b in zip(after, before, strict=True))
    gained = sum(a and not b for a, b in zip(after, before, strict=True))
    lost = sum(b and not a for a, b in zip(after, before, strict=True))
    neither = n - both - gained - lost
    rate_after, rate_before = (both + gained) / n, (both + lost) / n
    low_after, high_after = wilson(both + gained, n) or (0.0, 1.0)
    low_before, high_before = wilson(both + lost, n) or (0.0, 1.0)
    phi = _correlation(both, gained, lost, neither)
    difference = rate_after - rate_before
    below = _root(rate_after - low_after, high_before - rate_before, phi)
    above = _root(high_after - rate_after, rate_before - low_before, phi)
    return difference - below, difference + above


def bootstrap_mean(values: Sequence[float]) -> Interval | None:
    """Interval of a mean; None for fewer than two values, where nothing can be said."""
    if len(values) < 2:
        return None
    data = np.asarray(values, dtype=np.float64)
    picks = np.random.Generator(np.random.PCG64(0)).integers(0, len(data), size=(_RESAMPLES, len(data)))
    low, high = np.percentile(data[picks].mean(axis=1), (2.5, 97.5))
    return float(low), float(high)


def _correlation(both: int, gained: int, lost: int, neither: int) -> float:
    product = (both + gained) * (lost + neither) * (both + lost) * (gained + neither)
    if product == 0:
        return 0.0
    determinant = both * neither - gained * lost
    half = (both + gained + lost + neither) / 2
    corrected = max(determinant - half, 0.0) if determinant > 0 else float(determinant)
    return corrected / math.sqrt(product)


def _root(first: float, second: float, phi: float) -> float:
    return math.sqrt(max(0.0, first * first - 2 * phi * first * second + second * second))
