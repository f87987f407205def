"""A batch of rows being decoded: admit, step, retire.

Rows sit at the front of preallocated buffers; a retired row's place is taken by the last one, so that a step always
works on a contiguous block. Prompts that are equal are computed once and copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import PreTrainedModel

from art_core.inference.protocol import SamplingParams

from .attention import KeyValues, PrefixGroup, SegmentPlan, SuffixWindow, forward_hidden
from .head import head_logits
from .prefix_cache import PrefixCache, Segment, common_prefix, group_of, new_buffers
from .sampling import draw

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
        return len(self.segment.ids) if self.segment else 0


class DecodeBatch:
    """Rows decoded together with one set of weights. Not thread-safe: its engine's thread owns it."""

    def __init__(self, model: PreTrainedModel, *, max_rows: int = 64) -> None:
        self._model = model
        self._max_rows = max_rows
        self._buffers: list[KeyValues] = []
        self._slots = 0
        self.prefixes = PrefixCache(model)
        self.rows: list[Row] = []
        self.forward_tokens = 0
        """Tokens forwarded since the start, prefixes apart."""

    @property
    def free(self) -> int:
        """How many rows can be admitted."""
        return self._max_rows - len(self.rows)

    @property
    def computed_tokens(self) -> int:
        """Tokens forwarded since the start, shared prompts once."""
        return self.forward_tokens + self.prefixes.computed_tokens

    @torch.inference_mode()
    def admit(self, rows: Sequence[Row]) -> None:
        """Prefill new rows and draw the first token of each."""
        for row, segment in zip(rows, self._segments(rows), strict=True):
            row.segment = segment
        fresh: dict[tuple[int, ...], list[Row]] = {}
        for row in rows:
            fresh.setdefault(row.prompt, []).append(row)
        first = [siblings[0] for siblings in fresh.values()]
        begin = len(self.rows)
        self.rows.extend(first)
        wanted = max(len(r.prompt) - r.prefix_length + min(r.params.max_tokens, _FIRST_SLOTS) for r in rows)
        self._reserve(wanted, len(rows) - len(first))
        logits = self._prefill(begin, first)
        sources = {id(row): begin + position for position, row in enumerate(first)}
        order = list(range(len(first)))
        for position, siblings in enumerate(fresh.values()):
            for sibling in siblings[1:]:
                self._copy(sources[id(siblings[0])], len(self.rows))
                sibling.length = siblings[0].length
                self.rows.append(sibling)
                order.append(position)
        self._draw(self.rows[begin:], logits[order])

    @torch.inference_mode()
    def step(self) -> None:
        """Draw one more token for every row; finished rows must have been retired."""
        self._reserve(max(row.length for row in self.rows) + 1, 0)
        last = torch.tensor([[row.ids[-1]] for row in self.rows], device=self._model.device)
        hidden = forward_hidden(self._model, last, self._plan(0, self.rows, 1))
        self.forward_tokens += len(self.rows)
        for row in self.rows:
            row.length += 1
        self._draw(self.rows, head_logits(self._model, hidden[:, -1]))

    @torch.inference_mode()
    def retire(self) -> list[Row]:
        """Take the finished rows out and return them."""
        finished: list[Row] = self.remove([row for row in self.rows if row.finish_reason is not None])
        return finished

    @torch.inference_mode()
    def remove(self, rows: Sequence[Row]) -> list[Row]:
        """Take these rows out, finished or not."""
        for row in rows:
            place, last = self.rows.index(row), len(self.rows) - 1
            if place != last:
                self._copy(last, place)
                self.rows[place] = self.rows[last]
            self.rows.pop()
        return list(rows)

    def weights_changed(self) -> None:
        """Forget the cached prefixes, and give back the memory of the rows. Only legal while no row is being decoded."""
        assert not self.rows
        self.reset()

    def reset(self) -> None:
        """Drop every row as it is, and all that was computed for them."""
        self.rows.clear()
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

    def _prefill(self, begin: int, rows: Sequence[Row]) -> torch.Tensor:
        """(n, V) logits after the prompts of ``rows``, which sit at ``begin`` and have empty suffixes."""
        rests = [row.prompt[row.prefix_length :] for row in rows]
        width = max(map(len, rests))
        ids = torch.tensor([[*rest, *([0] * (width - len(rest)))] for rest in rests], device=self._model.device)
        hidden = forward_hidden(self._model, ids, self._plan(begin, rows, width))
        self.forward_tokens += sum(map(len, rests))
        for row, rest in zip(rows, rests, strict=True):
            row.length = len(rest)
        ends = torch.tensor([len(rest) - 1 for rest in rests], device=hidden.device)
        return head_logits(self._model, hidden[torch.arange(len(rows), device=hidden.device), ends])

    def _plan(self, begin: int, rows: Sequence[Row], new_tokens: int) -> SegmentPlan:
        end = begin + len(rows)
        device = self._model.device
        window = SuffixWindow(
            [(keys[begin:end], values[begin:end]) for keys, values in self._buffers],
            torch.tensor([row.length for row in rows], device=device),
            new_tokens,
        )
        members: dict[int, tuple[Segment, list[int]]] = {}
        for position, row in enumerate(rows):
            if row.segment is not None:
                members.setdefault(id(row.segment), (row.segment, []))[1].append(position)
        groups: list[PrefixGroup] = [
            group_of(segment, None if len(places) == len(rows) else torch.tensor(places, device=device))
            for segment, places in members.values()
        ]
        return SegmentPlan(groups, window, torch.tensor([row.prefix_length for row in rows], device=device))

    def _draw(self, rows: Sequence[Row], logits: torch.Tensor) -> None:
        ids, logprobs = draw(logits, [r.params for r in rows], [r.key for r in rows], [len(r.ids) for r in rows])
        for row, token, logprob in zip(rows, ids, logprobs, strict=True):
            row.ids.append(token)
            row.logprobs.append(logprob)

    def _reserve(self, slots: int, siblings: int) -> None:
        """Make the buffers large enough for all rows plus ``siblings`` more, each with ``slots`` slots."""
        rows = len(self.rows) + siblings
        have = self._buffers[0][0].shape[0] if self._buffers else 0
        if rows <= have and slots <= self._slots:
            return
        room = self._slots if slots <= self._slots else max(slots, 2 * self._slots)
        buffers = new_buffers(self._model, max(rows, have), room)  # may run out of memory: nothing was changed yet
        for (keys, values), (old_keys, old_values) in zip(buffers, self._buffers, strict=False):
            keys[: old_keys.shape[0], :, : old_keys.shape[2]] = old_keys
            values[: old_values.shape[0], :, : old_values.shape[2]] = old_values
        self._buffers, self._slots = buffers, room

    def _copy(self, source: int, target: int) -> None:
        for keys, values in self._buffers:
            keys[target] = keys[source]
            values[target] = values[source]
