"""How many tokens go through the model at once: as configured, and half as many each time memory runs out.

What is computed does not depend on it, so work that ran out of memory is done again with smaller passes.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

from art_core.errors import TrainerError

__all__ = ["Budget"]

P = ParamSpec("P")
R = TypeVar("R")

_LEAST = 64  # tokens; what does not fit then does not fit
_SIGNS = ("can't allocate memory", "out of memory", "not enough memory")

_log = logging.getLogger(__name__)


class Budget:
    """Most tokens of one pass. It only shrinks."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self._configured = tokens

    @property
    def frugal(self) -> bool:
        """Whether memory has run out: long rows are then cut, and shared runs computed twice instead of kept."""
        return self.tokens < self._configured

    def shrink(self, tokens: int) -> None:
        """Take at most so many tokens from now on."""
        self.tokens = min(self.tokens, tokens)

    def call(self, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Do ``work``, again with half the tokens each time it runs out of memory. A failed try must leave nothing behind.

        Raises:
            TrainerError: it runs out even with the smallest passes.
        """
        while True:
            try:
                return work(*args, **kwargs)
            except (MemoryError, RuntimeError) as error:
                if not _ran_out(error):
                    raise
                if self.tokens <= _LEAST:
                    raise TrainerError(
                        f"a pass over {self.tokens} tokens does not fit into memory; free some, or train a smaller model"
                    ) from error
            self.shrink(max(_LEAST, self.tokens // 2))
            _log.info("memory ran out in a training pass; trying again with %d tokens at once", self.tokens)
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()


def _ran_out(error: BaseException) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return any(sign in str(error).lower() for sign in _SIGNS)
