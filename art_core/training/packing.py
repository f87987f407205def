"""From training rows to the forward passes of a step: a radix trie in which a shared prefix is computed once.

The rows of a step share the system prompt and tools, the rows of a group share the whole prompt, and forks share their
history. ``build_tree`` cuts the rows into *nodes*, each a run of tokens that several rows begin with, and *leaves*, the
rest of each row, right-padded into micro-batches. A token may be trained wherever it lies: a node that holds trained
tokens answers for the rows it is shared by. Nothing after the last trained token of a row is computed.

Letters: B rows of a batch, S columns, N positions whose logits are needed, Q trained tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from art_core.trajectory.samples import TrainingSample

__all__ = ["Batch", "Node", "build_tree", "cut"]

Ints = NDArray[np.int64]

_BATCH_COST = 96  # a forward and backward pass costs as much as about so many tokens, however few it has
_CACHE_SHARE = 16  # a token attended to through the cache weighs this many times less than one computed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """One forward pass: rows of equal start, right-padded, and the trained tokens whose logits it gives.

    Position ``p`` of a row predicts token ``p + 1``; a trained token at ``t`` is asked for at position ``t - 1``.
    """

    start: int
    """Position of column 0: so many tokens stand in the cache."""
    token_ids: Ints
    """(B, S)"""
    tokens: int
    """Tokens that are not padding."""
    slots: Ints
    """(N, 2) row and column of each position whose logits are needed."""
    temperatures: NDArray[np.float32]
    """(N,) the temperature that each position's logits are divided by; no two slots agree in place and temperature."""
    ask_slot: Ints
    """(Q,) index into ``slots``."""
    ask_token: Ints
    """(Q,) the id whose logprob is asked for."""
    ask_row: Ints
    """(Q,) index of the sample."""
    ask_position: Ints
    """(Q,) position of the trained token in the sample."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """A run of tokens that several rows share, and what comes after it. The root has no tokens."""

    batch: Batch | None
    children: tuple[Node, ...]
    leaves: tuple[Batch, ...]

    def batches(self) -> Iterator[Batch]:
        """Every batch of the subtree, parents first."""
        if self.batch is not None:
            yield self.batch
        yield from self.leaves
        for child in self.children:
            yield from child.batches()


def build_tree(
    samples: Sequence[TrainingSample], *, micro_batch_tokens: int, min_shared_tokens: int | None, pad_id: int = 0
) -> Node:
    """The forward passes that give every trained token of ``samples`` its logprob exactly once.

    Args:
        samples: rows with at least one trained token each.
        micro_batch_tokens: most tokens, padding included, of a batch of leaves; a longer row is a batch of its own.
        min_shared_tokens: a node is made where it saves at least so many tokens (length times rows but one);
            None never shares.
        pad_id: id in the padded columns; it is never attended to.
    """
    packer = _Packer(samples, micro_batch_tokens, min_shared_tokens, pad_id)
    members = list(range(len(samples)))
    if min_shared_tokens is None:
        return Node(batch=None, children=(), leaves=packer.leaves(members, 0))
    children, loose = packer.split(members, 0, 0)
    return Node(batch=None, children=tuple(children), leaves=packer.leaves(loose, 0))


class _Packer:
    def __init__(
        self, samples: Sequence[TrainingSample], micro_batch_tokens: int, min_shared_tokens: int | None, pad_id: int
    ) -> None:
        self._ids = [np.asarray(sample.token_ids, dtype=np.int64) for sample in samples]
        self._targets = [np.flatnonzero(sample.mask).astype(np.int64) for sample in samples]
        self._temperatures = [float(sample.temperature) for sample in samples]
        self._ends = [int(targets[-1]) for targets in self._targets]
        self._budget = micro_batch_tokens
        self._min_shared = min_shared_tokens or 1
        self._pad_id = pad_id

    def split(self, members: list[int], start: int, depth: int) -> tuple[list[Node], list[int]]:
        """Nodes and leftover rows among ``members``, which agree up to ``depth`` and have nodes up to ``start``."""
        by_token: dict[int, list[int]] = {}
        loose: list[int] = []
        for row in members:
            if self._ends[row] - 1 <= depth:
                loose.append(row)
            else:
                by_token.setdefault(int(self._ids[row][depth]), []).append(row)
        nodes: list[Node] = []
        for rows in by_token.values():
            more, rest = self._grow(rows, start, depth)
            nodes += more
            loose += rest
        return nodes, loose

    def _grow(self, members: list[int], start: int, depth: int) -> tuple[list[Node], list[int]]:
        if len(members) == 1:
            return [], members
        end = self._common(members, depth)
        if (end - start) * (len(members) - 1) < self._min_shared:
            return self.split(members, start, end)
        children, loose = self.split(members, end, end)
        batch = self._batch([members], start, end)
        return [Node(batch=batch, children=tuple(children), leaves=self.leaves(loose, end))], []

    def _common(self, members: list[int], depth: int) -> int:
        """Length of the prefix that all members share, leaving each at least one token of its own."""
        end = min(self._ends[row] for row in members) - 1
        first = self._ids[members[0]]
        for row in members[1:]:
            differing = np.flatnonzero(first[depth:end] != self._ids[row][depth:end])
            if len(differing):
                end = depth + int(differing[0])
        return end

    def leaves(self, rows: list[int], start: int) -> tuple[Batch, ...]:
        """The rest of each row from ``start`` on, longest first, cut into micro-batches with little padding."""
        order = sorted(rows, key=lambda row: -self._ends[row])
        widths = [self._ends[row] - start for row in order]
        return tuple(
            self._batch([[row] for row in order[first:last]], start, None)
            for first, last in cut(widths, budget=self._budget, cached=start // _CACHE_SHARE)
        )

    def _batch(self, lines: list[list[int]], start: int, end: int | None) -> Batch:
        """Positions ``start`` to ``end`` (None: each row's own end); a line holds the samples that share it."""
        ends = [self._ends[line[0]] if end is None else end for line in lines]
        ids = np.full((len(lines), max(ends) - start), self._pad_id, dtype=np.int64)
        slots: dict[tuple[int, int, float], int] = {}
        asks: list[tuple[int, int, int, int]] = []
        for index, (line, stop) in enumerate(zip(lines, ends, strict=True)):
            ids[index, : stop - start] = self._ids[line[0]][start:stop]
            for row in line:
                targets = self._targets[row]
                for target in targets[(targets > start) & (targets <= stop)].tolist():
                    slot = slots.setdefault((index, target - 1 - start, self._temperatures[row]), len(slots))
                    asks.append((slot, int(self._ids[row][target]), row, target))
        columns = np.asarray(asks, dtype=np.int64).reshape(-1, 4)
        return Batch(
            start=start,
            token_ids=ids,
            tokens=sum(ends) - start * len(ends),
            slots=np.asarray([key[:2] for key in slots], dtype=np.int64).reshape(-1, 2),
            temperatures=np.asarray([key[2] for key in slots], dtype=np.float32),
            ask_slot=columns[:, 0],
            ask_token=columns[:, 1],
            ask_row=columns[:, 2],
            ask_position=columns[:, 3],
        )


def cut(widths: Sequence[int], *, budget: int, cached: int = 0) -> list[tuple[int, int]]:
    """Where to cut rows of falling ``widths`` into batches: as (first, last) pairs, last excluded.

    The padded tokens of all batches plus ``_BATCH_COST`` for each are fewest. A batch of several rows stays within
    ``budget`` tokens, counting ``cached`` more per row.
    """
    cost, origin = [0], [0]
    for last in range(1, len(widths) + 1):
        best, place = None, last - 1
        for first in range(last - 1, -1, -1):
            rows = last - first
            if rows > 1 and rows * (widths[first] + cached) > budget:
                break
            total = cost[first] + rows * widths[first] + _BATCH_COST
            if best is None or total <= best:
                best, place = total, first
        cost.append(best or 0)
        origin.append(place)
    cuts: list[tuple[int, int]] = []
    last = len(widths)
    while last:
        cuts.append((origin[last], last))
        last = origin[last]
    return cuts[::-1]
