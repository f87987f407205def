"""Drawing the next token: keyed, over the whole vocabulary, with the logprob of what was drawn.

The draw inverts the cumulative distribution at a keyed uniform number, in two stages (blocks, then within the block), which costs one pass
over the vocabulary and keeps float32 sums short.

Letters: B rows, of which n at once, V vocabulary.
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
    weights = _weights(logits, params)
    edges = _edges(weights)
    greedy = [p.temperature == 0 for p in params]
    if all(greedy):
        chosen = logits.argmax(-1)
    else:
        chosen = _choose(weights, edges, params, [uniform(k, c) for k, c in zip(keys, counters, strict=True)])
        if any(greedy):
            chosen = torch.where(torch.tensor(greedy, device=logits.device), logits.argmax(-1), chosen)
    logprobs = weights.gather(1, chosen[:, None])[:, 0].double().log() - edges[:, -1].log()
    return chosen.tolist(), logprobs.tolist()


def _weights(logits: torch.Tensor, params: Sequence[SamplingParams]) -> torch.Tensor:
    """(n, V) float32 probabilities at each row's temperature, up to a factor: the largest is 1."""
    weights = logits.to(torch.float32, copy=True)  # from here on in place: memory decides the speed
    weights.sub_(weights.amax(dim=-1, keepdim=True))
    temperatures = [p.temperature or 1.0 for p in params]
    if any(t != 1.0 for t in temperatures):
        weights.div_(torch.tensor(temperatures, device=logits.device)[:, None])
    return weights.exp_()


def _choose(
    weights: torch.Tensor, edges: torch.Tensor, params: Sequence[SamplingParams], numbers: Sequence[float]
) -> torch.Tensor:
    """(n,) ids that n uniform numbers choose, each from its row's nucleus."""
    if any(p.top_p < 1 for p in params):
        shares = torch.tensor([p.top_p for p in params], device=weights.device)
        weights = _nucleus(weights, shares * edges[:, -1])
        edges = _edges(weights)
    return _invert(weights, edges, torch.tensor(numbers, dtype=torch.float64).to(weights.device))


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
