"""Attention over a shared prefix and per-row suffixes, registered with transformers as ``art_segments``.

Rows that begin with the same ids attend to one copy of that prefix's keys and values; only what follows is kept per
row. The scores over both parts go through one softmax, so the result is that of ordinary attention over the whole row.

Letters: B rows, T new tokens a row, P prefix tokens, S suffix slots, H key/value heads, G query heads per key/value
head, D head size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import AttentionInterface, PreTrainedModel

from art_core.errors import InputError

__all__ = [
    "NAME",
    "KeyValues",
    "PrefixGroup",
    "SegmentPlan",
    "SuffixWindow",
    "forward_hidden",
    "refuse_sinks",
    "use_segment_attention",
]

NAME = "art_segments"

KeyValues = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True, slots=True)
class PrefixGroup:
    """Rows that share one prefix."""

    rows: torch.Tensor | None
    """(n,) row indices; None means every row of the batch."""
    layers: Sequence[KeyValues]
    """Per layer keys and values, each (1, H, P, D)."""
    length: int


class SuffixWindow:
    """The per-row keys and values that one forward reads and extends, a view into preallocated buffers.

    ``buffers`` holds per layer keys and values, each (B, H, S, D); row ``b`` has ``starts[b]`` valid slots before the
    forward and writes its T new tokens behind them.
    """

    def __init__(self, buffers: Sequence[KeyValues], starts: torch.Tensor, new_tokens: int) -> None:
        self._buffers = buffers
        self._rows = torch.arange(len(starts), device=starts.device)
        self._slots = starts[:, None] + torch.arange(new_tokens, device=starts.device)  # (B, T)
        self.used = int(starts.max()) + new_tokens

    @property
    def slots(self) -> torch.Tensor:
        """(B, T) the slot each new token is written to."""
        return self._slots

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer: int, *_: Any, **__: Any) -> KeyValues:
        """Write (B, H, T, D) new keys and values; return all used slots, each (B, H, used, D)."""
        all_keys, all_values = self._buffers[layer]
        index = (self._rows[:, None], slice(None), self._slots)
        all_keys[index] = keys.transpose(1, 2)
        all_values[index] = values.transpose(1, 2)
        return all_keys[:, :, : self.used], all_values[:, :, : self.used]

    def get_seq_length(self, layer: int = 0) -> int:
        """The number of used slots before this forward; part of what transformers asks of a cache."""
        return self.used - int(self._slots.shape[1])


@dataclass(slots=True)
class SegmentPlan:
    """What one forward attends to; its masks are made once for all layers."""

    groups: Sequence[PrefixGroup]
    """Disjoint; rows in none of them have no prefix."""
    window: SuffixWindow
    prefix_lengths: torch.Tensor
    """(B,) tokens of each row's prefix."""
    _hidden: dict[int | None, torch.Tensor] = field(default_factory=dict)

    def positions(self) -> torch.Tensor:
        """(B, T) absolute positions of the new tokens."""
        return self.prefix_lengths[:, None] + self.window.slots

    def hidden_slots(self, sliding_window: int | None) -> torch.Tensor:
        """(B, 1, 1, T, S) True where a new token must not look at a slot."""
        if sliding_window not in self._hidden:
            self._hidden[sliding_window] = self._compare(sliding_window)
        return self._hidden[sliding_window]

    def _compare(self, sliding_window: int | None) -> torch.Tensor:
        slots = torch.arange(self.window.used, device=self.window.slots.device)
        distance = self.window.slots[:, :, None] - slots  # (B, T, S)
        hidden = distance < 0
        if sliding_window is not None:
            hidden |= distance >= sliding_window
        return hidden[:, None, None]


def use_segment_attention(model: PreTrainedModel) -> None:
    """Make every attention layer of ``model`` use this module's function (needs a ``SegmentPlan`` in each forward)."""
    AttentionInterface.register(NAME, segment_attention)
    model.set_attn_implementation(NAME)


def forward_hidden(model: PreTrainedModel, ids: torch.Tensor, plan: SegmentPlan) -> torch.Tensor:
    """(B, T, hidden) last hidden states of the new tokens ``ids`` (B, T); their keys and values are written to the plan."""
    output = model.base_model(
        input_ids=ids,
        position_ids=plan.positions(),
        past_key_values=plan.window,
        use_cache=True,
        segment_plan=plan,
    )
    hidden: torch.Tensor = output.last_hidden_state
    return hidden


def segment_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    segment_plan: SegmentPlan,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **extra: Any,
) -> tuple[torch.Tensor, None]:
    """Exact attention of (B, H*G, T, D) queries over prefix and suffix; returns (B, T, H*G, D).

    ``key`` and ``value`` are what ``SuffixWindow.update`` returned, each (B, H, S, D).
    """
    refuse_sinks(extra)
    rows, _heads, tokens, size = query.shape
    kv_heads, slots = key.shape[1], key.shape[2]
    scale = size**-0.5 if scaling is None else scaling
    queries = (query * scale).reshape(rows, kv_heads, -1, size)  # (B, H, G*T, D)
    scores = queries @ key.transpose(2, 3)  # (B, H, G*T, S)
    scores = _cap(scores, softcap).view(rows, kv_heads, -1, tokens, slots)
    scores = scores.masked_fill(segment_plan.hidden_slots(sliding_window), float("-inf"))
    scores = scores.view(rows, kv_heads, -1, slots)
    layer: int = module.layer_idx
    groups, prefix = segment_plan.groups, None
    if not groups:
        weights = _softmax(scores)
    elif groups[0].rows is None:
        prefix, weights = _with_prefix(segment_plan, groups[0], layer, queries, scores, sliding_window, softcap)
    else:
        weights = _softmax(scores) if _some_row_alone(groups, rows) else torch.empty_like(scores)
        prefix = torch.zeros_like(queries)
        for group in groups:
            index = group.rows
            assert index is not None
            prefix[index], weights[index] = _with_prefix(
                segment_plan, group, layer, queries[index], scores[index], sliding_window, softcap
            )
    mixed = weights @ value
    if prefix is not None:
        mixed += prefix
    heads = mixed.reshape(rows, -1, tokens, size)  # (B, H*G, T, D)
    return heads.transpose(1, 2).contiguous(), None


def refuse_sinks(extra: Mapping[str, Any]) -> None:
    """
    Raises:
        InputError: the layer has attention sinks, which are not computed here.
    """
    if extra.get("s_aux") is not None:
        raise InputError("this model's attention has sinks (s_aux), which cannot be sampled from here")


def _some_row_alone(groups: Sequence[PrefixGroup], rows: int) -> bool:
    return sum(len(group.rows) for group in groups if group.rows is not None) < rows


def _with_prefix(
    plan: SegmentPlan,
    group: PrefixGroup,
    layer: int,
    queries: torch.Tensor,
    suffix_scores: torch.Tensor,
    sliding_window: int | None,
    softcap: float | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of n rows that share one prefix: their (n, H, G*T, D) mix of its values, and the (n, H, G*T, S) weights of their suffixes.

    The prefix's keys and values are read once for all of them.
    """
    keys, values = group.layers[layer]
    rows, kv_heads, flat, size = queries.shape
    length = group.length
    together = queries.transpose(0, 1).reshape(kv_heads, rows * flat, size)
    prefix = _cap(together @ keys[0, :, :length].transpose(1, 2), softcap)  # (H, n*G*T, P)
    prefix = prefix.view(kv_heads, rows, flat, length).transpose(0, 1)
    if sliding_window is not None:
        prefix = prefix.masked_fill(~_prefix_window(plan, group, flat, sliding_window), float("-inf"))
    weights = _softmax(torch.cat([prefix, suffix_scores], dim=-1))
    over_prefix = weights[..., :length].transpose(0, 1).reshape(kv_heads, rows * flat, length)
    mixed = (over_prefix @ values[0, :, :length]).view(kv_heads, rows, flat, size).transpose(0, 1)
    return mixed, weights[..., length:]


def _prefix_window(plan: SegmentPlan, group: PrefixGroup, flat: int, sliding_window: int) -> torch.Tensor:
    """(n, 1, G*T, P) True where a prefix position is within the sliding window of a new token."""
    positions = plan.positions() if group.rows is None else plan.positions()[group.rows]  # (n, T)
    distance = positions[:, :, None] - torch.arange(group.length, device=positions.device)
    allowed = distance < sliding_window  # (n, T, P)
    return allowed.repeat(1, flat // positions.shape[1], 1)[:, None]


def _cap(scores: torch.Tensor, softcap: float | None) -> torch.Tensor:
    return scores if softcap is None else torch.tanh(scores / softcap) * softcap


def _softmax(scores: torch.Tensor) -> torch.Tensor:
    return torch.softmax(scores, dim=-1, dtype=torch.float32).to(scores.dtype)
