"""From the rewards of groups of siblings to one advantage each; pure arithmetic, no tensors.

A missing reward (``None``) stays missing and moves nobody else. A group without spread gives exactly 0.0, so that its
rows can be left out before any forward pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

from art_core.errors import InputError

__all__ = ["EPSILON", "Baseline", "Scale", "group_advantages", "has_spread", "step_advantages"]

Scale = Literal["std", "none", "batch"]
Baseline = Literal["mean", "leave_one_out"]

EPSILON = 1e-6
"""Added to the standard deviation; it matters only for spreads near 1e-6 (a spread of exactly zero never divides)."""


def step_advantages(
    groups: Sequence[Sequence[float | None]],
    *,
    scale: Scale = "std",
    baseline: Baseline = "mean",
    epsilon: float = EPSILON,
) -> list[list[float | None]]:
    """The advantages of all groups of a step, each in the order of its rewards.

    Args:
        groups: one reward per sibling; ``None`` where scoring failed.
        scale: ``"std"`` divides by the *population* standard deviation of the group plus ``epsilon`` (GRPO, arXiv
            2402.03300); ``"batch"`` by that of all scored rewards of the step (arXiv 2508.08221), which does not blow up
            hair-breadth differences in one group; ``"none"`` leaves the difference as it is (Dr. GRPO, arXiv 2503.20783).
        baseline: ``"mean"`` compares with the mean of all scored siblings, oneself included; ``"leave_one_out"`` with that
            of the others (RLOO, arXiv 2402.14740), which is G / (G - 1) times as large.
        epsilon: see ``EPSILON``.

    Raises:
        InputError: a reward is NaN or infinite, or an option is unknown.
    """
    for name, value, valid in (("scale", scale, get_args(Scale)), ("baseline", baseline, get_args(Baseline))):
        if value not in valid:
            raise InputError(f"advantage {name} {value!r} is unknown; valid ones are {', '.join(map(repr, valid))}")
    everyone = _scored([reward for group in groups for reward in group])
    of_step = _std(everyone) if scale == "batch" else None
    return [_group(group, scale, baseline, epsilon, of_step) for group in groups]


def group_advantages(
    rewards: Sequence[float | None], *, scale: Scale = "std", baseline: Baseline = "mean", epsilon: float = EPSILON
) -> list[float | None]:
    """The advantages of a step that is one group: see ``step_advantages``.

    ``None`` where the reward was; 0.0 for all when the scored rewards are equal or there is only one of them.

    >>> group_advantages([0.0, None, 1.0], scale="none")
    [-0.5, None, 0.5]
    """
    return step_advantages([rewards], scale=scale, baseline=baseline, epsilon=epsilon)[0]


def _group(
    rewards: Sequence[float | None], scale: Scale, baseline: Baseline, epsilon: float, of_step: float | None
) -> list[float | None]:
    if not has_spread(rewards):
        return [None if reward is None else 0.0 for reward in rewards]
    scored = _scored(rewards)
    mean = math.fsum(scored) / len(scored)
    factor = len(scored) / (len(scored) - 1) if baseline == "leave_one_out" else 1.0
    if scale != "none":
        factor /= (_std(scored) if of_step is None else of_step) + epsilon
    return [None if reward is None else (reward - mean) * factor for reward in rewards]


def _scored(rewards: Sequence[float | None]) -> list[float]:
    scored = [float(reward) for reward in rewards if reward is not None]
    for reward in scored:
        if not math.isfinite(reward):
            raise InputError(f"a reward is {reward!r}; it must be a finite number, or None when it is missing")
    return scored


def _std(values: Sequence[float]) -> float:
    """Population standard deviation; 0.0 of nothing."""
    if not values:
        return 0.0
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))


def has_spread(rewards: Sequence[float | None]) -> bool:
    """Whether at least two scored rewards differ: only then does a group teach anything."""
    return len({float(reward) for reward in rewards if reward is not None}) > 1
