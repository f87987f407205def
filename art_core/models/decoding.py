"""A batch of rows being decoded: admit, step, retire.

Rows whose ids are equal so far, siblings of a group above all, are computed once, in one *place*: their logits are the same,
whatever each of them draws from these. Where they draw different tokens they part, and what is there is copied. Places lie at
the front of preallocated buffers; the last one moves into a gap, so that a step always works on a contiguous block. A row that goes on
from a finished one, the next turn of a conversation, begins with a copy of what that computed.

Letters: n places, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import PreTrainedModel

from art_core.inference.protocol import SamplingParams

from .attention import KeyValues, PrefixGroup, SegmentPlan, SuffixWindow, forward_hidden
from .head import compact_logits
from .prefix_cache import PrefixCache, new_buffers
from .sampling import draw
from .segment import Segment, common_prefix, group_of, length_of

__all__ = ["DecodeBatch", "Row"]

_WORTH_SHARING = 16  # shorter common prefixes are copied per row
_FIRST_SLOTS = 128  # tokens to come that a row gets room for at once; beyond that the buffers double
_WORTH_A_SEGMENT = 64  # a group's own prompt part beyond this gets a segment of its own


@dataclass(slots=True, eq=False)
class Row:
    """One completion being drawn."""

    prompt: tuple[int, ...]
    params: SamplingParams
    key: int
    owner: Any = None
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    segment: Segment | None = None
    length: int = 0
    """Filled suffix slots."""

    @property
    def finish_reason(self) -> str | None:
        """``stop`` or ``length`` once finished, else None."""
        if self.ids and self.ids[-1] in self.params.stop_ids:
            return "stop"
        return "length" if len(self.ids) >= self.params.max_tokens else None

    @property
    def prefix_length(self) -> int:
        return length_of(self.segment)


class DecodeBatch:
    """Rows decoded together with one set of weights. Not thread-safe: its engine's thread owns it."""

    def __init__(self, model: PreTrainedModel, *, max_rows: int = 64) -> None:
        self._model = model
        self._max_rows = max_rows
        self._buffers: list[KeyValues] = []
        self._slots = 0
        self.prefixes = PrefixCache(model)
        self._places: list[list[Row]] = []
        self._finished: list[Row] = []
        self.forward_tokens = 0
        """Tokens forwarded since the start, those of a place once, prefixes apart."""

    @property
    def rows(self) -> list[Row]:
        """Those being decoded."""
        return [row for place in self._places for row in place]

    @property
    def free(self) -> int:
        """How many rows can be admitted."""
        return self._max_rows - len(self.rows)

    @property
    def computed_tokens(self) -> int:
        """Tokens forwarded since the start; what rows have in common counts once."""
        return self.forward_tokens + self.prefixes.computed_tokens

    @torch.inference_mode()
    def admit(self, rows: Sequence[Row]) -> None:
        """Prefill new rows and draw the first token of each."""
        for row, segment in zip(rows, self._segments(rows), strict=True):
            row.segment = segment
        fresh: dict[tuple[int, ...], list[Row]] = {}
        for row in rows:
            fresh.setdefault(row.prompt, []).append(row)
        begin = len(self._places)
        self._places.extend(fresh.values())
        self._reserve(max(len(r.prompt) - r.prefix_length + min(r.params.max_tokens, _FIRST_SLOTS) for r in rows))
        self._recall(begin)
        self._draw(begin, self._prefill(begin))

    @torch.inference_mode()
    def step(self) -> None:
        """Draw one more token for every row."""
        self._reserve(max(place[0].length for place in self._places) + 1)
        last = torch.tensor([[place[0].ids[-1]] for place in self._places], device=self._model.device)
        hidden = forward_hidden(self._model, last, self._plan(0, 1))
        self.forward_tokens += len(self._places)
        for row in self.rows:
            row.length += 1
        self._draw(0, compact_logits(self._model, hidden[:, -1]))

    def retire(self) -> list[Row]:
        """The rows that have finished since it was last called; they are being decoded no more."""
        finished, self._finished = self._finished, []
        return finished

    @torch.inference_mode()
    def remove(self, rows: Sequence[Row]) -> list[Row]:
        """Take these rows, which are being decoded, out."""
        for row in rows:
            number = next(number for number, place in enumerate(self._places) if row in place)
            self._places[number].remove(row)
            if not self._places[number]:
                self._close(number)
        return list(rows)

    def weights_changed(self) -> None:
        """Forget the cached prefixes, and give back the memory of the rows. Only legal while no row is being decoded."""
        assert not self._places
        self.reset()

    def reset(self) -> None:
        """Drop every row as it is, and all that was computed for them."""
        self._places, self._finished = [], []
        self._buffers, self._slots = [], 0
        self.prefixes.clear()

    def _segments(self, rows: Sequence[Row]) -> list[Segment | None]:
        """The shared prefix each new row attends to: what all have in common, or a group's whole prompt if that is long."""
        prompts = {row.prompt for row in rows}
        root = min(common_prefix(list(prompts)), min(map(len, prompts)) - 1)
        if len(prompts) == 1 and len(rows) == 1:
            _, root = self.prefixes.longest(rows[0].prompt[:-1])
        counts = {prompt: sum(row.prompt == prompt for row in rows) for prompt in prompts}
        ends = {p: len(p) - 1 if n > 1 and len(p) - root > _WORTH_A_SEGMENT else root for p, n in counts.items()}
        return [
            self.prefixes.get(r.prompt[: ends[r.prompt]]) if ends[r.prompt] >= _WORTH_SHARING else None for r in rows
        ]

    def _recall(self, begin: int) -> None:
        """Begin the suffixes of the places from ``begin`` on with what finished rows computed of them."""
        for number, (first, *others) in enumerate(self._places[begin:], start=begin):
            kept, known = self.prefixes.finished.longest(first.prompt[:-1])
            if kept is not None and known - first.prefix_length >= _WORTH_SHARING:
                kept.copy(self._buffers, number, first.prefix_length, known)
                for row in (first, *others):
                    row.length = known - first.prefix_length

    def _prefill(self, begin: int) -> torch.Tensor:
        """(n, V) logits after the prompts of the places from ``begin`` on, of whose suffixes as much is there as their rows say."""
        places = self._places[begin:]
        rests = [place[0].prompt[place[0].prefix_length + place[0].length :] for place in places]
        width = max(map(len, rests))
        self._reserve(max(place[0].length for place in places) + width)
        ids = torch.tensor([[*rest, *([0] * (width - len(rest)))] for rest in rests], device=self._model.device)
        hidden = forward_hidden(self._model, ids, self._plan(begin, width))
        self.forward_tokens += sum(map(len, rests))
        for place, rest in zip(places, rests, strict=True):
            for row in place:
                row.length += len(rest)
        ends = torch.tensor([len(rest) - 1 for rest in rests], device=hidden.device)
        return compact_logits(self._model, hidden[torch.arange(len(places), device=hidden.device), ends])

    def _plan(self, begin: int, new_tokens: int) -> SegmentPlan:
        rows = [place[0] for place in self._places[begin:]]
        end = begin + len(rows)
        device = self._model.device
        window = SuffixWindow(
            [(keys[begin:end], values[begin:end]) for keys, values in self._buffers],
            torch.tensor([row.length for row in rows], device=device),
            new_tokens,
        )
        prefix_lengths = torch.tensor([row.prefix_length for row in rows], device=device)
        order, groups = _by_segment([row.segment for row in rows])
        as_they_lie = order == list(range(len(rows)))
        return SegmentPlan(groups, window, prefix_lengths, None if as_they_lie else torch.tensor(order, device=device))

    def _draw(self, begin: int, logits: torch.Tensor) -> None:
        """Draw a token for every row of the places from ``begin`` on, given their (n, V) logits, and part those that differ."""
        places = self._places[begin:]
        rows = [row for place in places for row in place]
        if len(rows) > len(places):
            logits = logits[[number for number, place in enumerate(places) for _ in place]]
        ids, logprobs = draw(logits, [r.params for r in rows], [r.key for r in rows], [len(r.ids) for r in rows])
        for row, token, logprob in zip(rows, ids, logprobs, strict=True):
            row.ids.append(token)
            row.logprobs.append(logprob)
        for number in reversed(range(begin, begin + len(places))):  # the last place may move into a gap
            self._part(number)

    def _part(self, number: int) -> None:
        """Give the rows of a place that drew something else places of their own; finished ones need none."""
        parts: dict[int, list[Row]] = {}
        finished = []
        for row in self._places[number]:
            if row.finish_reason is None:
                parts.setdefault(row.ids[-1], []).append(row)
            else:
                finished.append(row)
        if finished:
            computed = (*finished[0].prompt, *finished[0].ids[:-1])
            self.prefixes.finished.keep(computed, finished[0].segment, self._buffers, number)
            self._finished += finished
        if not parts:
            self._close(number)
            return
        self._places[number], *others = parts.values()
        for part in others:
            self._copy(number, len(self._places))
            self._places.append(part)

    def _close(self, number: int) -> None:
        """Give up an empty place."""
        last = len(self._places) - 1
        if number != last:
            self._copy(last, number)
            self._places[number] = self._places[last]
        self._places.pop()

    def _copy(self, source: int, target: int) -> None:
        filled = slice(self._places[source][0].length)
        for keys, values in self._buffers:
            keys[target, :, filled] = keys[source, :, filled]
            values[target, :, filled] = values[source, :, filled]

    def _reserve(self, slots: int) -> None:
        """Make the buffers large enough for every row in a place of its own, each with ``slots`` slots."""
        rows = len(self.rows)
        have = self._buffers[0][0].shape[0] if self._buffers else 0
        if rows <= have and slots <= self._slots:
            return
        room = self._slots if slots <= self._slots else max(slots, 2 * self._slots)
        buffers = new_buffers(self._model, max(rows, have), room)  # may run out of memory: nothing was changed yet
        for (keys, values), (old_keys, old_values) in zip(buffers, self._buffers, strict=False):
            keys[: old_keys.shape[0], :, : old_keys.shape[2]] = old_keys
            values[: old_values.shape[0], :, : old_values.shape[2]] = old_values
        self._buffers, self._slots = buffers, room


def _by_segment(segments: Sequence[Segment | None]) -> tuple[list[int], list[PrefixGroup]]:
    """The positions of ``segments``, equal ones together, shorter ones first, None last; and the groups in that order."""
    members: dict[Segment, list[int]] = {}
    for position, segment in enumerate(segments):
        if segment is not None:
            members.setdefault(segment, []).append(position)
    order: list[int] = []
    groups: list[PrefixGroup] = []
    for segment, positions in sorted(members.items(), key=lambda member: len(member[0].ids)):
        groups.append(group_of(segment, slice(len(order), len(order) + len(positions))))
        order += positions
    return order + [position for position, segment in enumerate(segments) if segment is None], groups
