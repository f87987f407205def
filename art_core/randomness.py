"""Keyed randomness: every random draw is a pure function of a key, never of what was drawn before.

A key is made of plain parts, for example ``(seed, step, scenario_id, sibling, turn)``. Equal parts give equal draws in
any process, in any order, after any resume.
"""

from __future__ import annotations

import hashlib
import random
from typing import Any

__all__ = ["fold", "rng", "uniform"]


def fold(*parts: Any) -> int:
    """A 64-bit key from any printable parts (ints, strings, tuples of them)."""
    text = "\x1f".join(f"{type(part).__name__}:{part!r}" for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def uniform(key: int, counter: int) -> float:
    """The ``counter``-th draw of ``key``: a float in the open interval (0, 1), 52 bits."""
    raw = hashlib.blake2b(key.to_bytes(8, "big") + counter.to_bytes(8, "big"), digest_size=8).digest()
    return ((int.from_bytes(raw, "big") >> 12) + 0.5) / (1 << 52)


def rng(*parts: Any) -> random.Random:
    """A standard generator seeded by the key of ``parts``, for shuffles and choices."""
    return random.Random(fold(*parts))
