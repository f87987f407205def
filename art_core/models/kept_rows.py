"""Keys and values of finished rows, kept until the weights change: a request that goes on from one, the next turn of a
conversation, computes only what is new.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .attention import KeyValues
from .segment import Segment, common_prefix, length_of

__all__ = ["KeptRow", "KeptRows"]


@dataclass(frozen=True, slots=True, eq=False)
class KeptRow:
    """A row as it was computed."""

    ids: tuple[int, ...]
    segment: Segment | None
    """The prefix it shared with other rows."""
    layers: tuple[KeyValues, ...]
    """Per layer keys and values of what follows that, each (H, L, D)."""
    ends: frozenset[int]
    """Where it ended, and where the rows did that it went on from."""

    @property
    def own(self) -> int:
        """How many tokens it has beyond its prefix."""
        return len(self.ids) - length_of(self.segment)

    def copy(self, buffers: Sequence[KeyValues], place: int, begin: int, end: int) -> None:
        """Write what was computed for the ids from ``begin`` to ``end`` into the first slots of a place of ``buffers``, each (B, H, S, D)."""
        prefix = length_of(self.segment)
        inside = max(0, min(prefix, end) - begin)
        own = slice(begin + inside - prefix, end - prefix)
        for layer, targets in enumerate(buffers):
            for target, kept in zip(targets, self.layers[layer], strict=True):
                target[place, :, inside : end - begin] = kept[:, own]
            if inside and self.segment is not None:
                for target, shared in zip(targets, self.segment.layers[layer], strict=True):
                    target[place, :, :inside] = shared[0, :, begin : begin + inside]


class KeptRows:
    """The newest finished rows, up to ``max_tokens`` in memory: their own, and those of the prefixes that they hold, each prefix once."""

    def __init__(self, *, max_tokens: int = 32768) -> None:
        self._max_tokens = max_tokens
        self._rows: dict[tuple[int, ...], KeptRow] = {}

    @property
    def tokens(self) -> int:
        """How many are in memory because of these rows."""
        prefixes = {row.segment for row in self._rows.values()}
        return sum(row.own for row in self._rows.values()) + sum(map(length_of, prefixes))

    def clear(self) -> None:
        """Forget everything: the weights have changed."""
        self._rows.clear()

    def keep(self, ids: tuple[int, ...], segment: Segment | None, buffers: Sequence[KeyValues], place: int) -> None:
        """Keep the row of these ids, that lies in a place of ``buffers``, behind its prefix, in the place of those it begins with."""
        ends = frozenset({len(ids)})
        for begun in [known for known in self._rows if ids[: len(known)] == known]:
            ends |= self._rows.pop(begun).ends
        own = len(ids) - length_of(segment)
        layers = tuple((keys[place, :, :own].clone(), values[place, :, :own].clone()) for keys, values in buffers)
        self._rows[ids] = KeptRow(ids, segment, layers, ends)
        while self.tokens > self._max_tokens:
            del self._rows[next(iter(self._rows))]

    def longest(self, ids: Sequence[int]) -> tuple[KeptRow | None, int]:
        """The row that ``ids`` go on from for longest, and how many of them it has: to where one ended, never to the middle, so that equal
        requests are computed alike.
        """
        best, length, wanted = None, 0, tuple(ids)
        for row in self._rows.values():
            shared = common_prefix([row.ids, wanted])
            end = max((end for end in row.ends if end <= shared), default=0)
            if end > length:
                best, length = row, end
        return best, length
