"""From the rewards of one group of siblings to one advantage each; pure arithmetic, no tensors.

A missing reward (``None``) stays missing and moves nobody else. A group without spread gives exactly 0.0, so that its
rows can be left out before any forward pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from art_core.errors import InputError

__all__ = ["EPSILON", "Scale", "group_advantages", "has_spread"]

Scale = Literal["std", "none"]

EPSILON = 1e-6
"""Added to the standard deviation; it matters only for spreads near 1e-6 (a spread of exactly zero never divides)."""


def group_advantages(
    rewards: Sequence[float | None], *, scale: Scale = "std", epsilon: float = EPSILON
) -> list[float | None]:
    """Reward minus the mean of the scored siblings, over their spread.

    Args:
        rewards: one per sibling; ``None`` where scoring failed.
        scale: ``"std"`` divides by the *population* standard deviation plus ``epsilon`` (GRPO, arXiv 2402.03300);
            ``"none"`` leaves the difference as it is, so that easy and hard groups are not blown up to the same size
            (Dr. GRPO, arXiv 2503.20783).
        epsilon: see ``EPSILON``.

    Returns:
        One advantage per reward in the same order; ``None`` where the reward was; 0.0 for all when the scored rewards
        are equal or there is only one of them.

    Raises:
        InputError: a reward is NaN or infinite, or ``scale`` is unknown.
    """
    if scale not in ("std", "none"):
        raise InputError(f"advantage scale {scale!r} is unknown; valid ones are 'std' and 'none'")
    scored = [float(reward) for reward in rewards if reward is not None]
    for reward in scored:
        if not math.isfinite(reward):
            raise InputError(f"a reward is {reward!r}; it must be a finite number, or None when it is missing")
    if not has_spread(rewards):
        return [None if reward is None else 0.0 for reward in rewards]
    mean = math.fsum(scored) / len(scored)
    divisor = 1.0
    if scale == "std":
        divisor = math.sqrt(math.fsum((reward - mean) ** 2 for reward in scored) / len(scored)) + epsilon
    return [None if reward is None else (reward - mean) / divisor for reward in rewards]


def has_spread(rewards: Sequence[float | None]) -> bool:
    """Whether at least two scored rewards differ: only then does a group teach anything."""
    return len({float(reward) for reward in rewards if reward is not None}) > 1
