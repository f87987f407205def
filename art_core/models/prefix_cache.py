"""Keys and values of prompt prefixes that rows share, kept until the weights change.

A new segment that begins like an old one, or goes on from a finished row, computes only what follows.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import PreTrainedModel

from .attention import KeyValues, SegmentPlan, SuffixWindow, forward_hidden
from .kept_rows import KeptRows
from .segment import Segment, common_prefix

__all__ = ["PrefixCache", "new_buffers"]

_CHUNK = 1024  # prompt tokens a forward; bounds the memory of attention scores


class PrefixCache:
    """The segments computed with the present weights, least recently used ones dropped beyond ``max_tokens``."""

    def __init__(self, model: PreTrainedModel, *, max_tokens: int = 16384) -> None:
        self._model = model
        self._max_tokens = max_tokens
        self._segments: dict[tuple[int, ...], Segment] = {}
        self.finished = KeptRows()
        """Rows that are not being decoded any more."""
        self.computed_tokens = 0
        """Prefix tokens forwarded since the start; a shared prompt counts once."""

    def clear(self) -> None:
        """Forget everything: the weights have changed."""
        self._segments.clear()
        self.finished.clear()

    def longest(self, ids: Sequence[int]) -> tuple[Segment | None, int]:
        """The segment that shares the longest prefix with ``ids``, and its length."""
        best, length, wanted = None, 0, tuple(ids)
        for segment in self._segments.values():
            shared = common_prefix([segment.ids, wanted])
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
        row, known = self.finished.longest(ids)
        buffers = new_buffers(self._model, 1, len(ids))
        if row is not None and known > shared:
            row.copy(buffers, 0, 0, known)
            shared = known
        elif base is not None:
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


def new_buffers(model: PreTrainedModel, rows: int, slots: int) -> list[KeyValues]:
    """Zeroed keys and values per layer, each (rows, H, slots, D), in the model's dtype."""
    config = model.config.get_text_config()
    heads = config.num_key_value_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    shape = (rows, heads, slots, size)
    kind = {"dtype": model.dtype, "device": model.device}
    return [(torch.zeros(shape, **kind), torch.zeros(shape, **kind)) for _ in range(config.num_hidden_layers)]
