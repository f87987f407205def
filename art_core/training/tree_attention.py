"""Attention over a pack: each token attends to its own segment and to the segments and the cache it continues.

Registered with transformers as ``art_tree``. The queries of a pack are cut into *blocks*: neighbouring small subtrees
that continue the same segments, or a piece of one long segment. A block attends to few ranges of keys, so no score
between unrelated rows is computed but for those inside a block. Query heads that share a key/value head are laid end to
end as if they were more queries of that one head. Scores, probabilities and their gradients are float32 whatever the
precision, what they are multiplied with is not; they are computed again in the backward pass instead of being kept, as in
FlashAttention (arXiv 2205.14135).

Letters: S tokens of the pack, P cached tokens, T queries of a block, K its keys, H key/value heads, G query heads per
key/value head, D head size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from .packing import Pack, Segment

__all__ = ["NAME", "TreePlan", "tree_attention", "use_tree_attention"]

NAME = "art_tree"

_BLOCK = 256  # queries of a block: small subtrees are gathered up to so many, long segments cut into pieces of so many

Range = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    queries: Range
    """Columns of the pack."""
    keys: tuple[Range, ...]
    """Columns of cache and pack together; the last T keys are the queries' own columns."""
    hidden: torch.Tensor
    """(T, T) True where a query must not look at one of the last T keys; those before them it sees all."""
    query_positions: torch.Tensor
    """(T, 1)"""
    key_positions: torch.Tensor
    """(K,)"""


class TreePlan:
    """What one pack attends to; made once for all layers."""

    def __init__(self, pack: Pack, device: torch.device) -> None:
        layout = _Layout(pack.segments)
        positions = np.concatenate([np.arange(pack.start), pack.positions])
        self.blocks: list[_Block] = []
        for queries, above in layout.blocks():
            columns = [(low + pack.start, high + pack.start) for low, high in (*above, queries)]
            keys = _joined([(0, pack.start), *columns])
            key_positions = np.concatenate([positions[low:high] for low, high in keys])
            self.blocks.append(
                _Block(
                    queries,
                    keys,
                    torch.from_numpy(layout.hidden(queries)).to(device),
                    torch.from_numpy(pack.positions[slice(*queries), None]).to(device),
                    torch.from_numpy(key_positions).to(device),
                )
            )


def use_tree_attention(model: PreTrainedModel) -> None:
    """Make every attention layer of ``model`` use this module's function; without a ``tree_plan`` it is torch's."""
    AttentionInterface.register(NAME, tree_attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    model.set_attn_implementation(NAME)


def tree_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    tree_plan: TreePlan | None = None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """(1, S, H*G, D) from queries (1, H*G, S, D), and keys and values (1, H, P + S, D) of cache and pack."""
    if tree_plan is None:
        mixed, _ = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, sliding_window=sliding_window, **others
        )
        return mixed, None
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    out: torch.Tensor = _TreeAttention.apply(query, key, value, tree_plan, scale, sliding_window, softcap)
    return out.transpose(1, 2).contiguous(), None


class _TreeAttention(torch.autograd.Function):  # type: ignore[misc]  # torch is untyped there
    """Softmax attention block by block. Formulas of the backward pass: FlashAttention-2, arXiv 2307.08691, section 2.3."""

    @staticmethod
    def forward(
        ctx: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        plan: TreePlan,
        scale: float,
        window: int | None,
        softcap: float | None,
    ) -> torch.Tensor:
        scores = _Scores(plan, window, softcap)
        with torch.autocast(query.device.type, enabled=False):
            q, k, v = _grouped(query, key, scale), _wide(key[0]), value[0]
            out = q.new_empty(*q.shape[:3], v.shape[-1])
            normaliser = q.new_empty(q.shape[:3])
            for block in plan.blocks:
                of_block = scores(block, q, k)
                highest = of_block.amax(dim=-1, keepdim=True)
                weights = of_block.sub_(highest).exp_()
                total = weights.sum(dim=-1, keepdim=True)
                mixed = _wide(weights.to(v.dtype) @ _gather(v, block.keys)).div_(total)
                _at(out, block).copy_(_unflat(mixed, q.shape[1]))
                _at(normaliser, block).copy_(_unflat(highest.add_(total.log_()), q.shape[1])[..., 0])
        ctx.save_for_backward(query, key, value, out, normaliser)
        ctx.scores, ctx.scale = scores, scale
        return out.flatten(0, 1)[None].to(value.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        with torch.autocast(gradient.device.type, enabled=False):
            return _TreeAttention._gradients(ctx, gradient)

    @staticmethod
    def _gradients(ctx: Any, gradient: torch.Tensor) -> Any:
        query, key, value, out, normaliser = ctx.saved_tensors
        scores: _Scores = ctx.scores
        q, k, v = _grouped(query, key, ctx.scale), _wide(key[0]), _wide(value[0])
        narrow = value.dtype
        q_narrow, k_narrow, g_narrow = q.to(narrow), key[0].to(narrow), gradient[0].to(narrow).view_as(out)
        g = _wide(gradient[0]).view_as(out)
        delta = (g * out).sum(-1)
        dq, dk, dv = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for block in scores.plan.blocks:
            weights, slope = scores.weights(block, q, k, _flat(_at(normaliser, block)[..., None]))
            _add(dv, block.keys, weights.to(narrow).transpose(1, 2) @ _flat(_at(g_narrow, block)))
            inner = _less(_flat(_at(delta, block)[..., None]), _flat(_at(g, block)), _gather(v, block.keys))
            inner.mul_(weights)
            if slope is not None:
                inner.mul_(slope)
            inner = inner.to(narrow)
            _at(dq, block).copy_(_unflat(inner @ _gather(k_narrow, block.keys), q.shape[1]))
            _add(dk, block.keys, inner.transpose(1, 2) @ _flat(_at(q_narrow, block)))
        return (
            dq.mul_(ctx.scale).flatten(0, 1)[None].to(query.dtype),
            dk[None].to(key.dtype),
            dv[None].to(value.dtype),
            *[None] * 4,
        )


@dataclass(frozen=True, slots=True)
class _Scores:
    """The scores of a block, (H, G*T, K), -inf where a query must not look; the queries are scaled already."""

    plan: TreePlan
    window: int | None
    softcap: float | None

    def __call__(self, block: _Block, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        scores = _flat(_at(q, block)) @ _gather(k, block.keys).transpose(1, 2)
        return self._hide(block, self._cap(scores))

    def weights(
        self, block: _Block, q: torch.Tensor, k: torch.Tensor, normaliser: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """``exp(scores - normaliser)``, and the derivative of the scores with respect to the products (None: 1)."""
        if self.softcap is None:
            scores = _less(normaliser, _flat(_at(q, block)), _gather(k, block.keys))
            return self._hide(block, scores).exp_(), None
        scores = self(block, q, k)
        slope = (1 - (scores / self.softcap).square()).nan_to_num_(0, 0, 0)
        return scores.sub_(normaliser).exp_(), slope

    def _cap(self, scores: torch.Tensor) -> torch.Tensor:
        return scores if self.softcap is None else scores.div_(self.softcap).tanh_().mul_(self.softcap)

    def _hide(self, block: _Block, scores: torch.Tensor) -> torch.Tensor:
        tokens = len(block.hidden)
        by_head = scores.view(scores.shape[0], -1, tokens, scores.shape[-1])  # (H, G, T, K)
        by_head[..., -tokens:].masked_fill_(block.hidden, float("-inf"))
        if self.window is not None:
            by_head.masked_fill_(block.query_positions - block.key_positions >= self.window, float("-inf"))
        return scores


class _Layout:
    """The segments of a pack as a tree, cut into blocks."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = segments
        self._ends = [segment.end for segment in segments]
        self._children: dict[int | None, list[int]] = {}
        for number, segment in enumerate(segments):
            self._children.setdefault(segment.parent, []).append(number)
        for number in range(len(segments) - 1, -1, -1):
            parent = segments[number].parent
            if parent is not None:
                self._ends[parent] = max(self._ends[parent], self._ends[number])
        self._paths = np.eye(len(segments), dtype=np.bool_)
        for number, segment in enumerate(segments):
            if segment.parent is not None:
                self._paths[number] |= self._paths[segment.parent]
        self._of_column = np.repeat(np.arange(len(segments)), [s.end - s.begin for s in segments])

    def blocks(self) -> list[tuple[Range, tuple[Range, ...]]]:
        """Of each block its queries and the ranges they see in full, as columns of the pack."""
        found: list[tuple[Range, tuple[Range, ...]]] = []
        waiting: list[tuple[int | None, tuple[Range, ...]]] = [(None, ())]
        while waiting:
            parent, above = waiting.pop()
            gathered: Range | None = None
            for number in self._children.get(parent, []):
                begin, end = self._segments[number].begin, self._ends[number]
                if gathered and end - gathered[0] > _BLOCK:
                    found.append((gathered, above))
                    gathered = None
                if end - begin <= _BLOCK:
                    gathered = (gathered[0] if gathered else begin, end)
                    continue
                own_end = self._segments[number].end
                for low in range(begin, own_end, _BLOCK):
                    found.append(((low, min(low + _BLOCK, own_end)), (*above, (begin, low))))
                waiting.append((number, (*above, (begin, own_end))))
            if gathered:
                found.append((gathered, above))
        return found

    def hidden(self, columns: Range) -> NDArray[np.bool_]:
        """(T, T) True where a column must not look at another."""
        order = np.arange(*columns)
        of = self._of_column[order]
        related = self._paths[of[:, None], of[None]] & (order[None] <= order[:, None])
        return np.asarray(~related)


def _joined(ranges: Sequence[Range]) -> tuple[Range, ...]:
    """Ranges without empty ones, neighbours made one."""
    joined: list[Range] = []
    for low, high in ranges:
        if joined and joined[-1][1] == low:
            joined[-1] = (joined[-1][0], high)
        elif low < high:
            joined.append((low, high))
    return tuple(joined)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()


def _grouped(query: torch.Tensor, key: torch.Tensor, scale: float) -> torch.Tensor:
    """(H, G, S, D) of (1, H*G, S, D), scaled."""
    return (_wide(query[0]) * scale).unflatten(0, (key.shape[1], -1))


def _less(amount: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """``left @ right^T - amount`` in one pass over the result."""
    return torch.baddbmm(amount, left, right.transpose(1, 2), beta=-1)


def _at(tensor: torch.Tensor, block: _Block) -> torch.Tensor:
    return tensor[:, :, block.queries[0] : block.queries[1]]


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """(H, G*T, D) of (H, G, T, D)."""
    return tensor.flatten(1, 2)


def _unflat(tensor: torch.Tensor, groups: int) -> torch.Tensor:
    return tensor.unflatten(1, (groups, -1))


def _gather(tensor: torch.Tensor, ranges: Sequence[Range]) -> torch.Tensor:
    """(H, K, D) of (H, P + S, D)."""
    pieces = [tensor[:, low:high] for low, high in ranges]
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=1)


def _add(total: torch.Tensor, ranges: Sequence[Range], amount: torch.Tensor) -> None:
    """Add (H, K, D) to the ranges it was gathered from."""
    done = 0
    for low, high in ranges:
        total[:, low:high] += amount[:, done : done + high - low]
        done += high - low
