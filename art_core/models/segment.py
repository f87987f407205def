"""A prompt prefix that rows share: its ids with their keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .attention import KeyValues, PrefixGroup

__all__ = ["Segment", "common_prefix", "group_of", "length_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """A prefix: its ids and, per layer, keys and values, each (1, H, P, D)."""

    ids: tuple[int, ...]
    layers: tuple[KeyValues, ...]


def length_of(segment: Segment | None) -> int:
    """How many ids it has; none where there is none."""
    return len(segment.ids) if segment else 0


def group_of(segment: Segment, rows: slice) -> PrefixGroup:
    """The rows that attend to ``segment``."""
    return PrefixGroup(rows, segment.layers, len(segment.ids))


def common_prefix(sequences: Sequence[tuple[int, ...]]) -> int:
    """How many leading ids all sequences share: as many as the first and the last of them in their order do."""
    first, last = min(sequences), max(sequences)
    same, longest = 0, min(len(first), len(last))
    while same < longest:  # slices are compared faster than ids one by one
        middle = (same + longest + 1) // 2
        if first[same:middle] == last[same:middle]:
            same = middle
        else:
            longest = middle - 1
    return same
