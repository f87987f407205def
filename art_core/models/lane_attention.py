"""Attention in lanes, registered with transformers as ``art_lanes``: each row over buffers of its own, alone.

The size of a row's buffers, and so their strides, are a function of how much they hold. No product mixes rows, and every
operand begins at an aligned address.

Letters: W lanes, T new tokens a lane, H key/value heads, G query heads per key/value head, S filled slots, D head size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import AttentionInterface, PreTrainedModel

from .attention import KeyValues, refuse_sinks
from .prefix_cache import new_buffers

__all__ = ["LanePlan", "Memory", "forward_lanes", "use_lane_attention"]

NAME = "art_lanes"
_FIRST_SLOTS = 64


class Memory:
    """The keys and values of one row, per layer each (1, H, capacity, D).

    The capacity is the smallest of 64, 128, 256 ... that is large enough, so that strides too are a function of the row.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self._capacity = 0
        self.layers: list[KeyValues] = []
        self.length = 0
        """Filled slots."""

    def reserve(self, slots: int) -> None:
        """Make room for ``slots`` in all."""
        wanted = _FIRST_SLOTS
        while wanted < slots:
            wanted *= 2
        if wanted <= self._capacity:
            return
        old, self._capacity = self.layers, wanted
        self.layers = new_buffers(self._model, 1, wanted)
        for pair, old_pair in zip(self.layers, old, strict=False):
            for new, filled in zip(pair, old_pair, strict=True):
                new[:, :, : self.length] = filled[:, :, : self.length]

    def append(self, layers: Sequence[KeyValues]) -> None:
        """Copy computed keys and values, each (1, H, n, D), behind what is there."""
        end = self.length + layers[0][0].shape[2]
        self.reserve(end)
        for pair, more in zip(self.layers, layers, strict=True):
            for buffer, new in zip(pair, more, strict=True):
                buffer[:, :, self.length : end] = new
        self.length = end

    def copy(self) -> Memory:
        """The same in buffers of its own."""
        twin = Memory(self._model)
        twin.append([(keys[:, :, : self.length], values[:, :, : self.length]) for keys, values in self.layers])
        return twin


class LanePlan:
    """What one forward of T tokens in each of W lanes attends to; also the cache object that transformers asks for."""

    def __init__(self, lanes: Sequence[Memory | None], tokens: int) -> None:
        self._lanes = lanes
        self._tokens = tokens
        for memory in lanes:
            if memory is not None:
                memory.reserve(memory.length + tokens)

    def positions(self, device: torch.device) -> torch.Tensor:
        """(W, T) absolute positions of the new tokens."""
        starts = [0 if memory is None else memory.length for memory in self._lanes]
        return torch.tensor(starts, device=device)[:, None] + torch.arange(self._tokens, device=device)

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer: int, *_: Any, **__: Any) -> KeyValues:
        """Write the new (W, H, T, D) keys and values into each lane's own buffers."""
        for lane, memory in enumerate(self._lanes):
            if memory is not None:
                place = slice(memory.length, memory.length + self._tokens)
                memory.layers[layer][0][0, :, place] = keys[lane]
                memory.layers[layer][1][0, :, place] = values[lane]
        return keys, values

    def get_seq_length(self, layer: int = 0) -> int:
        """Part of what transformers asks of a cache; every position is given to it, so it decides nothing."""
        return 0

    def attend(
        self, layer: int, queries: torch.Tensor, *, sliding_window: int | None, softcap: float | None
    ) -> torch.Tensor:
        """(W, H*G, T, D) mixes of scaled (W, H*G, T, D) queries, each lane over its own slots; zeros in empty lanes."""
        mixed = torch.zeros_like(queries)
        for lane, memory in enumerate(self._lanes):
            if memory is not None:
                keys, values = (buffer[0, :, : memory.length + self._tokens] for buffer in memory.layers[layer])
                hidden = self._hidden(memory.length, sliding_window, queries.device)
                mixed[lane] = _attend(
                    queries[lane].clone(memory_format=torch.contiguous_format), keys, values, hidden, softcap
                )
        return mixed

    def advance(self) -> None:
        """Count what was written as filled."""
        for memory in self._lanes:
            if memory is not None:
                memory.length += self._tokens

    def _hidden(self, start: int, sliding_window: int | None, device: torch.device) -> torch.Tensor | None:
        """(T, S) True where a new token must not look at a slot; None where it may look at all."""
        end = start + self._tokens
        if self._tokens == 1 and (sliding_window is None or end <= sliding_window):
            return None
        distance = torch.arange(start, end, device=device)[:, None] - torch.arange(end, device=device)
        hidden = distance < 0
        return hidden if sliding_window is None else hidden | (distance >= sliding_window)


def _attend(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, hidden: torch.Tensor | None, softcap: float | None
) -> torch.Tensor:
    """(H*G, T, D) mixes of one lane: scaled queries (H*G, T, D) over keys and values, each (H, S, D)."""
    heads, tokens, size = queries.shape
    kv_heads, slots = keys.shape[:2]
    scores = queries.view(kv_heads, -1, size) @ keys.transpose(1, 2)  # (H, G*T, S)
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    if hidden is not None:
        scores = scores.view(kv_heads, -1, tokens, slots).masked_fill(hidden, float("-inf")).view(kv_heads, -1, slots)
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(values.dtype)
    return (weights @ values).view(heads, tokens, size)


def use_lane_attention(model: PreTrainedModel) -> None:
    """Make every attention layer of ``model`` use this module's function (needs a ``LanePlan`` in each forward)."""
    AttentionInterface.register(NAME, lane_attention)
    model.set_attn_implementation(NAME)


def lane_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    lane_plan: LanePlan,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **extra: Any,
) -> tuple[torch.Tensor, None]:
    """Exact attention of (W, H*G, T, D) queries, lane by lane; returns (W, T, H*G, D)."""
    refuse_sinks(extra)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    layer: int = module.layer_idx
    mixed = lane_plan.attend(layer, query * scale, sliding_window=sliding_window, softcap=softcap)
    return mixed.transpose(1, 2).contiguous(), None


def forward_lanes(model: PreTrainedModel, ids: torch.Tensor, lanes: Sequence[Memory | None]) -> torch.Tensor:
    """(W, T, hidden) last hidden states of the new tokens ``ids`` (W, T), which are added to the memories."""
    plan = LanePlan(lanes, ids.shape[1])
    output = model.base_model(
        input_ids=ids,
        position_ids=plan.positions(ids.device),
        past_key_values=plan,
        use_cache=True,
        lane_plan=plan,
    )
    plan.advance()
    hidden: torch.Tensor = output.last_hidden_state
    return hidden
