"""The limits of one rollout. Reaching one ends the rollout; it is not a failure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from art_core.errors import InputError

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much one rollout may use.

    >>> Limits(turns=4, seconds=60).tokens
    8192

    Raises:
        InputError: a count that is not a positive integer, or a duration that is not positive.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"allow_inf_nan": True, "extra": "forbid"}
    """``inf`` is a valid duration in a configuration too."""

    turns: int = 16
    """Model calls."""
    tokens: int = 8192
    """Sampled tokens over all turns; what is left caps ``max_tokens`` of the next turn."""
    tool_calls: int = 64
    seconds: float = 300.0
    """Wall clock for opening the environment and running the agent; ``math.inf`` for none."""
    reward_seconds: float = 600.0
    """Wall clock for one reward, or one judgement of a group."""
    close_seconds: float = 10.0
    """Wall clock for stopping the agent, and again for closing its environment."""

    def __post_init__(self) -> None:
        for name in ("turns", "tokens", "tool_calls"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InputError(f"limit {name} must be a whole number of at least 1, got {value!r}")
        for name in ("seconds", "reward_seconds", "close_seconds"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or isinstance(value, bool) or math.isnan(value) or value <= 0:
                raise InputError(f"limit {name} must be a number of seconds above 0, got {value!r}")
