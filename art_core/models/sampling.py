"""Drawing the next token: keyed, over the whole vocabulary, with the logprob of what was drawn.

Letters: B rows, of which n at once, V vocabulary. The draw inverts the cumulative distribution at a keyed uniform number, in two stages
(blocks, then within the block), which costs one pass over the vocabulary and keeps float32 sums short.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from art_core.inference.protocol import SamplingParams
from art_core.randomness import uniform

__all__ = ["draw"]

_BLOCK = 256
_ROWS = 8  # rows drawn at once: their weights stay in the processor's cache, and in memory that is used again


def draw(
    logits: torch.Tensor, params: Sequence[SamplingParams], keys: Sequence[int], counters: Sequence[int]
) -> tuple[list[int], list[float]]:
    """One token a row from (B, V) logits of any floating type; what follows from them is computed in float32.

    Row ``b`` uses draw ``counters[b]`` of key ``keys[b]``. Returns ids and logprobs in nats at the row's temperature
    over the whole vocabulary (at temperature 0, the most likely id and its logprob at temperature 1).
    """
    ids: list[int] = []
    logprobs: list[float] = []
    for start in range(0, len(params), _ROWS):
        rows = slice(start, start + _ROWS)
        some_ids, some_logprobs = _draw_some(logits[rows], params[rows], keys[rows], counters[rows])
        ids += some_ids
        logprobs += some_logprobs
    return ids, logprobs


def _draw_some(
    logits: torch.Tensor, params: Sequence[SamplingParams], keys: Sequence[int], counters: Sequence[int]
) -> tuple[list[int], list[float]]:
    temperatures = [p.temperature or 1.0 for p in params]
    weights = logits.to(torch.float32, copy=True)  # (n, V); from here on in place: memory decides the speed
    weights.sub_(weights.amax(dim=-1, keepdim=True))
    if any(t != 1.0 for t in temperatures):
        weights.div_(torch.tensor(temperatures, device=logits.device)[:, None])
    edges = _edges(weights.exp_())
    totals = edges[:, -1]
    greedy = torch.tensor([p.temperature == 0 for p in params], device=logits.device)
    if all(p.temperature == 0 for p in params):
        chosen = logits.argmax(-1)
    else:
        numbers = torch.tensor([uniform(k, c) for k, c in zip(keys, counters, strict=True)], dtype=torch.float64)
        allowed, allowed_edges = weights, edges
        if any(p.top_p < 1 for p in params):
            nuclei = torch.tensor([p.top_p for p in params], device=logits.device)
            allowed = _nucleus(weights, nuclei * totals)
            allowed_edges = _edges(allowed)
        chosen = _invert(allowed, allowed_edges, numbers.to(logits.device))
        if greedy.any():
            chosen = torch.where(greedy, logits.argmax(-1), chosen)
    logprobs = weights.gather(1, chosen[:, None])[:, 0].double().log() - totals.log()
    return chosen.tolist(), logprobs.tolist()


def _edges(weights: torch.Tensor) -> torch.Tensor:
    """(B, V / block) float64 running sums of (B, V) weights, block by block."""
    whole = weights.shape[1] // _BLOCK * _BLOCK
    sums = weights[:, :whole].unflatten(1, (-1, _BLOCK)).sum(-1)
    if whole < weights.shape[1]:
        sums = torch.cat([sums, weights[:, whole:].sum(-1, keepdim=True)], dim=1)
    return sums.double().cumsum(-1)


def _invert(weights: torch.Tensor, edges: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """(B,) the first index whose cumulative weight exceeds ``numbers`` (B,) times the total; ``edges`` are its sums."""
    target = numbers * edges[:, -1]
    block = torch.searchsorted(edges, target[:, None], right=True).clamp_(max=edges.shape[1] - 1)  # (B, 1)
    before = torch.where(block > 0, edges.gather(1, (block - 1).clamp(min=0)), 0.0)
    columns = block * _BLOCK + torch.arange(_BLOCK, device=weights.device)
    size = weights.shape[1]
    inner = weights.gather(1, columns.clamp(max=size - 1)).masked_fill_(columns >= size, 0.0)
    within = inner.double().cumsum(-1)
    offset = torch.searchsorted(within, target[:, None] - before, right=True)[:, 0]
    last = _BLOCK - 1 - (inner.flip(1) > 0).to(torch.int8).argmax(1)  # rounding never leaves the support
    return block[:, 0] * _BLOCK + torch.minimum(offset, last)


def _nucleus(weights: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
    """Zero everything outside the smallest set of most likely ids that holds ``share`` (B,) of the weight."""
    ordered, order = weights.sort(-1, descending=True)
    outside = ordered.cumsum(-1) - ordered >= share[:, None]
    return weights.scatter(1, order, ordered.masked_fill(outside, 0.0))
