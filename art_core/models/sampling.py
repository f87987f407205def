"""Drawing the next token: keyed, over the whole vocabulary, with the logprob of what was drawn.

Letters: B rows, V vocabulary. The draw inverts the cumulative distribution at a keyed uniform number, in two stages
(blocks, then within the block), which costs one pass over the vocabulary and keeps float32 sums short.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from art_core.inference.protocol import SamplingParams
from art_core.randomness import uniform

__all__ = ["draw"]

_BLOCK = 256


def draw(
    logits: torch.Tensor, params: Sequence[SamplingParams], keys: Sequence[int], counters: Sequence[int]
) -> tuple[list[int], list[float]]:
    """One token a row from (B, V) float32 logits.

    Row ``b`` uses draw ``counters[b]`` of key ``keys[b]``. Returns ids and logprobs in nats at the row's temperature
    over the whole vocabulary (at temperature 0, the most likely id and its logprob at temperature 1).
    """
    temperatures = [p.temperature or 1.0 for p in params]
    if any(t != 1.0 for t in temperatures):
        logits = logits / torch.tensor(temperatures, device=logits.device)[:, None]
    greedy = torch.tensor([p.temperature == 0 for p in params])
    chosen = torch.empty(len(params), dtype=torch.long, device=logits.device)
    normaliser = torch.logsumexp(logits, dim=-1)  # (B,)
    if greedy.any():
        rows = greedy.nonzero()[:, 0].to(logits.device)
        chosen[rows] = logits[rows].argmax(-1)
    if not greedy.all():
        rows = (~greedy).nonzero()[:, 0]
        picks = rows.tolist()
        numbers = torch.tensor([uniform(keys[i], counters[i]) for i in picks], dtype=torch.float64)
        probabilities = torch.exp(logits[rows] - normaliser[rows, None])
        nuclei = [params[i].top_p for i in picks]
        if any(top_p < 1 for top_p in nuclei):
            probabilities = _nucleus(probabilities, torch.tensor(nuclei, device=logits.device))
        chosen[rows.to(logits.device)] = _invert(probabilities, numbers.to(logits.device))
    logprobs = logits.gather(1, chosen[:, None])[:, 0] - normaliser
    return chosen.tolist(), logprobs.tolist()


def _invert(probabilities: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """(B,) the first index whose cumulative weight exceeds ``numbers`` (B,) times the total."""
    rows, size = probabilities.shape
    padding = -size % _BLOCK
    blocks = torch.nn.functional.pad(probabilities, (0, padding)).view(rows, -1, _BLOCK)
    edges = blocks.sum(-1, dtype=torch.float64).cumsum(-1)  # (B, V / block)
    target = numbers * edges[:, -1]
    block = torch.searchsorted(edges, target[:, None], right=True).clamp_(max=edges.shape[1] - 1)
    before = torch.where(block > 0, edges.gather(1, (block - 1).clamp(min=0)), 0.0)
    inner = blocks[torch.arange(rows, device=blocks.device), block[:, 0]]
    within = inner.double().cumsum(-1)
    offset = torch.searchsorted(within, target[:, None] - before, right=True)[:, 0]
    last = inner.shape[1] - 1 - (inner.flip(1) > 0).to(torch.int8).argmax(1)  # rounding never leaves the support
    return block[:, 0] * _BLOCK + torch.minimum(offset, last)


def _nucleus(probabilities: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Zero everything outside the smallest set of most likely ids that holds ``top_p`` (B,) of the weight."""
    ordered, order = probabilities.sort(-1, descending=True)
    outside = ordered.cumsum(-1) - ordered >= top_p[:, None]
    return probabilities.scatter(1, order, ordered.masked_fill(outside, 0.0))
