"""What torch has to be told so that the same arithmetic gives the same bits again on a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["deterministic_algorithms", "fix_threads"]


@contextmanager
def deterministic_algorithms() -> Iterator[None]:
    """Meanwhile, add up in an order that does not depend on which thread is faster; what was set before is put back.

    It holds for the whole process. An operation that has no such order raises a RuntimeError.
    """
    before = torch.are_deterministic_algorithms_enabled()
    warned = torch.is_deterministic_algorithms_warn_only_enabled()
    filled = torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warned)
        torch.utils.deterministic.fill_uninitialized_memory = filled


def fix_threads() -> None:
    """Use exactly as many threads as now, never fewer: left alone, the matrix library may choose from call to call."""
    torch.set_num_threads(torch.get_num_threads())
