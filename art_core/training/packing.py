"""From training rows to the forward passes of a step: a radix trie in which a shared prefix is computed once.

The rows of a step share the system prompt and tools, the rows of a group share the whole prompt, and forks share their
history. ``build_tree`` cuts the rows into *runs*: tokens that the same rows have in common, or the rest of one row. Runs
are laid end to end, parents first, into *packs*: one forward pass each, without padding, in which a token attends to the
runs above its own (see ``tree_attention``). A subtree too large for one pack becomes a *node*: its first run is computed
in a pass of its own, and the passes below it attend to what it leaves behind. A token may be trained wherever it lies: a
run answers for all rows that share it. Nothing after the last trained token of a row is computed.

Letters: S tokens of a pack, N positions whose logits are needed, Q trained tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from art_core.trajectory.samples import TrainingSample

__all__ = ["Node", "Pack", "Segment", "build_tree"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One run inside a pack."""

    begin: int
    end: int
    """Its columns, ``end`` excluded."""
    parent: int | None
    """Index of the segment it continues; None: it continues what stands in the cache."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pack:
    """One forward pass: segments end to end, and the trained tokens whose logits it gives.

    Position ``p`` of a row predicts token ``p + 1``; a trained token at ``t`` is asked for at position ``t - 1``.
    """

    start: int
    """So many tokens stand in the cache."""
    token_ids: Ints
    """(S,)"""
    positions: Ints
    """(S,) each token's position in its rows."""
    segments: tuple[Segment, ...]
    """Depth first: all that continues a segment comes right behind it."""
    slots: Ints
    """(N,) column of each position whose logits are needed."""
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
    """A run of tokens computed by itself, and the passes after it. The root has no tokens."""

    pack: Pack | None
    children: tuple[Node, ...]
    packs: tuple[Pack, ...]

    def every_pack(self) -> Iterator[Pack]:
        """Every pack of the subtree, parents first."""
        if self.pack is not None:
            yield self.pack
        yield from self.packs
        for child in self.children:
            yield from child.every_pack()


def build_tree(
    samples: Sequence[TrainingSample], *, micro_batch_tokens: int, min_shared_tokens: int | None, cut: bool = False
) -> Node:
    """The forward passes that give every trained token of ``samples`` its logprob exactly once.

    Args:
        samples: rows with at least one trained token each.
        micro_batch_tokens: most tokens of a pack; a longer run is a pack of its own, unless ``cut``.
        min_shared_tokens: a run is shared where that saves at least so many tokens (length times rows but one);
            None: every row is whole and has a pack of its own.
        cut: lay a run that is too long for a pack into several, each a node below the one before.
    """
    rows = _Rows(samples)
    everyone = list(range(len(samples)))
    if min_shared_tokens is None:
        return Node(pack=None, children=(), packs=tuple(_pack(rows, [rows.rest(row, 0)]) for row in everyone))
    return _node(rows, None, rows.runs(everyone, 0, 0, min_shared_tokens), micro_batch_tokens, cut)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Run:
    """Tokens ``start`` to ``end`` of all ``rows``, and the runs that continue it."""

    start: int
    end: int
    rows: list[int]
    children: list[_Run]

    @property
    def tokens(self) -> int:
        """Tokens of the run and everything below it."""
        return self.end - self.start + sum(child.tokens for child in self.children)


class _Rows:
    """The rows of a step, and the trie of their shared prefixes."""

    def __init__(self, samples: Sequence[TrainingSample]) -> None:
        self.ids = [np.asarray(sample.token_ids, dtype=np.int64) for sample in samples]
        self.targets = [np.flatnonzero(sample.mask).astype(np.int64) for sample in samples]
        self.temperatures = [float(sample.temperature) for sample in samples]
        self._ends = [int(targets[-1]) for targets in self.targets]

    def rest(self, row: int, start: int) -> _Run:
        """What one row has to itself from ``start`` on."""
        return _Run(start=start, end=self._ends[row], rows=[row], children=[])

    def runs(self, members: list[int], start: int, depth: int, min_shared: int) -> list[_Run]:
        """What comes after ``start`` in ``members``, which agree up to ``depth``."""
        by_token: dict[int, list[int]] = {}
        found: list[_Run] = []
        for row in members:
            if self._ends[row] - 1 <= depth:
                found.append(self.rest(row, start))
            else:
                by_token.setdefault(int(self.ids[row][depth]), []).append(row)
        for rows in by_token.values():
            found += self._grow(rows, start, depth, min_shared)
        return found

    def _grow(self, members: list[int], start: int, depth: int, min_shared: int) -> list[_Run]:
        if len(members) == 1:
            return [self.rest(members[0], start)]
        end = self._common(members, depth)
        if (end - start) * (len(members) - 1) < min_shared:
            return self.runs(members, start, end, min_shared)
        return [_Run(start=start, end=end, rows=members, children=self.runs(members, end, end, min_shared))]

    def _common(self, members: list[int], depth: int) -> int:
        """Length of the prefix that all members share, leaving each at least one token of its own."""
        end = min(self._ends[row] for row in members) - 1
        first = self.ids[members[0]]
        for row in members[1:]:
            differing = np.flatnonzero(first[depth:end] != self.ids[row][depth:end])
            if len(differing):
                end = depth + int(differing[0])
        return end


def _node(rows: _Rows, run: _Run | None, following: list[_Run], budget: int, cut: bool) -> Node:
    """A node of ``run`` alone (None: the root), with everything that follows it laid into packs or nodes."""
    children: list[Node] = []
    bins: list[list[_Run]] = []
    room: list[int] = []
    for child in (_cut(run, budget) for run in following) if cut else following:
        if child.children and child.tokens > budget:
            children.append(_node(rows, child, child.children, budget, cut))
            continue
        place = next((index for index, left in enumerate(room) if left >= child.tokens), len(bins))
        if place == len(bins):
            bins.append([])
            room.append(budget)
        bins[place].append(child)
        room[place] -= child.tokens
    alone = None if run is None else _Run(start=run.start, end=run.end, rows=run.rows, children=[])
    return Node(
        pack=None if alone is None else _pack(rows, [alone]),
        children=tuple(children),
        packs=tuple(_pack(rows, runs) for runs in bins),
    )


def _cut(run: _Run, most: int) -> _Run:
    """The first ``most`` tokens of a run, continued by the rest of it."""
    if run.end - run.start <= most:
        return run
    middle = run.start + most
    rest = _Run(start=middle, end=run.end, rows=run.rows, children=run.children)
    return _Run(start=run.start, end=middle, rows=run.rows, children=[rest])


def _pack(rows: _Rows, runs: list[_Run]) -> Pack:
    builder = _PackBuilder(rows)
    for run in runs:
        builder.add(run, None)
    return builder.build(runs[0].start)


class _PackBuilder:
    def __init__(self, rows: _Rows) -> None:
        self._rows = rows
        self._ids: list[Ints] = []
        self._positions: list[Ints] = []
        self._segments: list[Segment] = []
        self._slots: dict[tuple[int, float], int] = {}
        self._asks: list[tuple[int, int, int, int]] = []

    def add(self, run: _Run, parent: int | None) -> None:
        """Append a run and all that continues it."""
        begin = self._segments[-1].end if self._segments else 0
        number = len(self._segments)
        self._segments.append(Segment(begin=begin, end=begin + run.end - run.start, parent=parent))
        self._ids.append(self._rows.ids[run.rows[0]][run.start : run.end])
        self._positions.append(np.arange(run.start, run.end, dtype=np.int64))
        for row in run.rows:
            self._ask(run, row, begin)
        for child in run.children:
            self.add(child, number)

    def _ask(self, run: _Run, row: int, begin: int) -> None:
        targets = self._rows.targets[row]
        for target in targets[(targets > run.start) & (targets <= run.end)].tolist():
            place = (begin + target - 1 - run.start, self._rows.temperatures[row])
            slot = self._slots.setdefault(place, len(self._slots))
            self._asks.append((slot, int(self._rows.ids[row][target]), row, target))

    def build(self, start: int) -> Pack:
        asks = np.asarray(self._asks, dtype=np.int64).reshape(-1, 4)
        return Pack(
            start=start,
            token_ids=np.concatenate(self._ids),
            positions=np.concatenate(self._positions),
            segments=tuple(self._segments),
            slots=np.asarray([column for column, _ in self._slots], dtype=np.int64),
            temperatures=np.asarray([temperature for _, temperature in self._slots], dtype=np.float32),
            ask_slot=asks[:, 0],
            ask_token=asks[:, 1],
            ask_row=asks[:, 2],
            ask_position=asks[:, 3],
        )
