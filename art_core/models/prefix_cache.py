"""Keys and values of prompt prefixes that rows share, kept until the weights change.

A segment is the ids of a prefix with their keys and values. A new segment that begins like an old one computes only
what follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from .attention import KeyValues, PrefixGroup, SegmentPlan, SuffixWindow, forward_hidden

__all__ = ["PrefixCache", "Segment", "common_prefix", "new_buffers"]

_CHUNK = 1024  # prompt tokens a forward; bounds the memory of attention scores


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """A prefix: its ids and, per layer, keys and values, each (1, H, P, D)."""

    ids: tuple[int, ...]
    layers: tuple[KeyValues, ...]


class PrefixCache:
    """The segments computed with the present weights, least recently used ones dropped beyond ``max_tokens``."""

    def __init__(self, model: PreTrainedModel, *, max_tokens: int = 16384) -> None:
        self._model = model
        self._max_tokens = max_tokens
        self._segments: dict[tuple[int, ...], Segment] = {}
        self.computed_tokens = 0
        """Prefix tokens forwarded since the start; a shared prompt counts once."""

    def clear(self) -> None:
        """Forget everything: the weights have changed."""
        self._segments.clear()

    def longest(self, ids: Sequence[int]) -> tuple[Segment | None, int]:
        """The segment that shares the longest prefix with ``ids``, and its length."""
        best, length = None, 0
        for segment in self._segments.values():
            shared = common_prefix([segment.ids, ids])
            if shared > length:
                best, length = segment, shared
        return best, length

    def get(self, ids: Sequence[int]) -> Segment:
        """The segment of exactly ``ids``, computed if it is new."""
        wanted = tuple(ids)
        segment = self._segments.pop(wanted, None) or self._compute(wanted)
        self._segments[wanted] = segment
        while sum(map(len, self._segments)) > self._max_tokens and len(self._segments) > 1:
            del self._segments[next(iter(self._segments))]
        return segment

    def _compute(self, ids: tuple[int, ...]) -> Segment:
        base, shared = self.longest(ids)
        buffers = new_buffers(self._model, 1, len(ids))
        if base is not None:
            for (keys, values), (old_keys, old_values) in zip(buffers, base.layers, strict=True):
                keys[:, :, :shared] = old_keys[:, :, :shared]
                values[:, :, :shared] = old_values[:, :, :shared]
        for start in range(shared, len(ids), _CHUNK):
            chunk = torch.tensor([ids[start : start + _CHUNK]], device=self._model.device)
            window = SuffixWindow(buffers, torch.tensor([start], device=chunk.device), chunk.shape[1])
            forward_hidden(
                self._model, chunk, SegmentPlan((), window, torch.zeros(1, dtype=torch.long, device=chunk.device))
            )
        self.computed_tokens += len(ids) - shared
        return Segment(ids, tuple(buffers))


def group_of(segment: Segment, rows: slice) -> PrefixGroup:
    """The rows that attend to ``segment``."""
    return PrefixGroup(rows, segment.layers, len(segment.ids))


def new_buffers(model: PreTrainedModel, rows: int, slots: int) -> list[KeyValues]:
    """Zeroed keys and values per layer, each (rows, H, slots, D), in the model's dtype."""
    config = model.config.get_text_config()
    heads = config.num_key_value_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    shape = (rows, heads, slots, size)
    kind = {"dtype": model.dtype, "device": model.device}
    return [(torch.zeros(shape, **kind), torch.zeros(shape, **kind)) for _ in range(config.num_hidden_layers)]


def common_prefix(sequences: Sequence[Sequence[int]]) -> int:
    """How many leading ids all sequences share."""
    shortest = min(sequences, key=len)
    for position, token in enumerate(shortest):
        if any(sequence[position] != token for sequence in sequences):
            return position
    return len(shortest)
