"""Attention over a shared prefix and per-row suffixes, registered with transformers as ``art_segments``.

Rows that begin with the same ids attend to one copy of that prefix's keys and values; only what follows is kept per
row. The scores over both parts go through one softmax, so the result is that of ordinary attention over the whole row.

Letters: B rows, T new tokens a row, P prefix tokens, S suffix slots, H key/value heads, G query heads per key/value
head, D head size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
_BLOCK = 128  # tokens of a row whose scores exist at once
_PADDING = 1.25  # the longest prefix of a bundle may be so many times the shortest

KeyValues = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True, slots=True)
class PrefixGroup:
    """Rows that share one prefix."""

    rows: slice
    """Where they lie in the order of ``SegmentPlan.order``."""
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
    """One behind the other, best by length; the rows after the last have no prefix."""
    window: SuffixWindow
    prefix_lengths: torch.Tensor
    """(B,) tokens of each row's prefix."""
    order: torch.Tensor | None = None
    """(B,) the rows group by group; None: so they lie."""
    back: torch.Tensor | None = field(init=False)
    """(B,) where each row stands in ``order``."""
    bundles: Sequence[Sequence[PrefixGroup]] = field(init=False)
    """The groups; when one token a row is new, neighbours of similar length together."""
    _hidden: dict[int | None, torch.Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.back = None if self.order is None else self.order.argsort()
        self.bundles = _bundled(self.groups) if self.window.slots.shape[1] == 1 else [[group] for group in self.groups]

    def by_group(self, rows: torch.Tensor) -> torch.Tensor:
        """(B, ...) what is given of the rows as they lie, group by group."""
        return rows if self.order is None else rows[self.order]

    def as_they_lie(self, rows: torch.Tensor) -> torch.Tensor:
        """(B, ...) what is given of the rows group by group, as they lie."""
        return rows if self.back is None else rows[self.back]

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
    rows, heads, tokens, size = query.shape
    scale = size**-0.5 if scaling is None else scaling
    queries = (query * scale).view(rows, key.shape[1], -1, tokens, size)
    layer = _Layer(segment_plan, module.layer_idx, key, value, sliding_window, softcap)
    blocks = [layer.attend(queries, start) for start in range(0, tokens, _BLOCK)]
    mixed = blocks[0] if len(blocks) == 1 else torch.cat(blocks, dim=3)
    return mixed.view(rows, heads, tokens, size).transpose(1, 2).contiguous(), None


@dataclass(frozen=True, slots=True)
class _Layer:
    """What the queries of one layer attend to; ``keys`` and ``values`` of the suffixes are each (B, H, S, D)."""

    plan: SegmentPlan
    number: int
    keys: torch.Tensor
    values: torch.Tensor
    sliding_window: int | None
    softcap: float | None

    def attend(self, queries: torch.Tensor, start: int) -> torch.Tensor:
        """(B, H, G, t, D) mixes for a block of the scaled (B, H, G, T, D) queries: up to ``_BLOCK`` from ``start`` on.

        Scores of a whole prompt would not fit into the processor's cache, and half of them are hidden anyway.
        """
        tokens = slice(start, min(start + _BLOCK, queries.shape[3]))
        block = queries[:, :, :, tokens]
        shape, flat = block.shape, block.flatten(2, 3)  # (B, H, G*t, D)
        used = self.plan.window.used - queries.shape[3] + tokens.stop  # what comes later is hidden from all of them
        scores = _cap(flat @ self.keys[:, :, :used].transpose(2, 3), self.softcap)
        hidden = self.plan.hidden_slots(self.sliding_window)[..., tokens, :used]
        scores = scores.unflatten(2, shape[2:4]).masked_fill(hidden, float("-inf")).flatten(2, 3)  # (B, H, G*t, S)
        prefix, weights = self._over_prefixes(flat, scores, tokens)
        mixed = weights @ self.values[:, :, :used]
        if prefix is not None:
            mixed += prefix
        return mixed.view(shape)

    def _over_prefixes(
        self, queries: torch.Tensor, scores: torch.Tensor, tokens: slice
    ) -> tuple[torch.Tensor | None, torch.Tensor]:
        """The (B, H, G*t, D) mixes of the prefixes' values, and the weights of the suffixes whose ``scores`` are given."""
        plan = self.plan
        if not plan.bundles:
            return None, torch.softmax(scores, dim=-1)
        queries, scores = plan.by_group(queries), plan.by_group(scores)
        prefix, weights = self._group_by_group(queries, scores, tokens)
        return plan.as_they_lie(prefix), plan.as_they_lie(weights)

    def _group_by_group(
        self, queries: torch.Tensor, scores: torch.Tensor, tokens: slice
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """As ``_over_prefixes``, of rows that lie group by group."""
        plan = self.plan
        if _rows_of(plan.bundles[0]) == slice(0, len(queries)):
            return self._with_prefixes(plan.bundles[0], queries, scores, tokens)
        prefix, weights = torch.zeros_like(queries), torch.empty_like(scores)
        for bundle in plan.bundles:
            rows = _rows_of(bundle)
            prefix[rows], weights[rows] = self._with_prefixes(bundle, queries[rows], scores[rows], tokens)
        alone = slice(plan.groups[-1].rows.stop, None)
        weights[alone] = torch.softmax(scores[alone], dim=-1)
        return prefix, weights

    def _with_prefixes(
        self, bundle: Sequence[PrefixGroup], queries: torch.Tensor, suffix_scores: torch.Tensor, tokens: slice
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Of the n rows of a bundle: their (n, H, G*t, D) mixes of the prefixes' values, and the (n, H, G*t, S) weights of
        their suffixes.

        Keys and values of a prefix are read once for its group. All scores lie in one table, the longest prefix before the
        suffix, so that one softmax serves all groups.
        """
        rows, kv_heads, flat, size = queries.shape
        longest = max(group.length for group in bundle)
        lines = queries.transpose(0, 1).reshape(kv_heads, rows * flat, size)
        table = lines.new_empty(kv_heads, rows * flat, longest + suffix_scores.shape[-1])
        table[..., longest:].unflatten(1, (rows, flat)).copy_(suffix_scores.transpose(0, 1))
        for group, place in _places(bundle, flat):
            self._score(group, lines[:, place], table[:, place, :longest], tokens)
        weights = torch.softmax(table, dim=-1)
        mixed = torch.empty_like(lines)
        for group, place in _places(bundle, flat):
            values = group.layers[self.number][1][0, :, : group.length]
            _multiply(weights[:, place, : group.length], values, mixed[:, place])
        of_rows = (kv_heads, rows, flat)
        return mixed.view(*of_rows, size).transpose(0, 1), weights[..., longest:].view(*of_rows, -1).transpose(0, 1)

    def _score(self, group: PrefixGroup, queries: torch.Tensor, target: torch.Tensor, tokens: slice) -> None:
        """Write the scores of the (H, n*G*t, D) queries of a group into ``target``, (H, n*G*t, P or more)."""
        keys = group.layers[self.number][0][0, :, : group.length]
        scores = target[..., : group.length]
        _multiply(queries, keys.transpose(1, 2), scores)
        if self.softcap is not None:
            scores.copy_(_cap(scores, self.softcap))
        if self.sliding_window is not None:
            flat = queries.shape[1] // (group.rows.stop - group.rows.start)
            scores.masked_fill_(self._beyond(self.sliding_window, group, flat, tokens), float("-inf"))
        if group.length < target.shape[-1]:
            target[..., group.length :] = float("-inf")

    def _beyond(self, window: int, group: PrefixGroup, flat: int, tokens: slice) -> torch.Tensor:
        """(n*G*t, P) True where a prefix position is outside the sliding window of a new token."""
        positions = self.plan.by_group(self.plan.positions()[:, tokens])[group.rows]  # (n, t)
        distance = positions[:, :, None] - torch.arange(group.length, device=positions.device)
        return (distance >= window).repeat(1, flat // positions.shape[1], 1).flatten(0, 1)  # from (n, t, P)


def _bundled(groups: Sequence[PrefixGroup]) -> list[list[PrefixGroup]]:
    """Neighbours whose lengths differ little, together: their scores share a table, where the shorter are padded."""
    bundles: list[list[PrefixGroup]] = []
    for group in groups:
        lengths = [other.length for other in (*(bundles[-1] if bundles else ()), group)]
        if bundles and max(lengths) <= _PADDING * min(lengths):
            bundles[-1].append(group)
        else:
            bundles.append([group])
    return bundles


def _rows_of(bundle: Sequence[PrefixGroup]) -> slice:
    return slice(bundle[0].rows.start, bundle[-1].rows.stop)


def _places(bundle: Sequence[PrefixGroup], flat: int) -> Iterator[tuple[PrefixGroup, slice]]:
    """Each group with its lines in the table of its bundle, ``flat`` a row."""
    first = bundle[0].rows.start
    for group in bundle:
        yield group, slice((group.rows.start - first) * flat, (group.rows.stop - first) * flat)


def _multiply(a: torch.Tensor, b: torch.Tensor, target: torch.Tensor) -> None:
    """``target = a @ b``, where ``target`` is part of a table."""
    if target.dtype == torch.float32:  # written in place, this would be one small product after the other
        target.copy_(a @ b)
    else:
        torch.bmm(a, b, out=target)


def refuse_sinks(extra: Mapping[str, Any]) -> None:
    """
    Raises:
        InputError: the layer has attention sinks, which are not computed here.
    """
    if extra.get("s_aux") is not None:
        raise InputError("this model's attention has sinks (s_aux), which cannot be sampled from here")


def _cap(scores: torch.Tensor, softcap: float | None) -> torch.Tensor:
    return scores if softcap is None else torch.tanh(scores / softcap) * softcap
