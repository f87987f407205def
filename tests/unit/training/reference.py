"""T30: the loss in plain loops, one row and one token at a time, through the model's own forward pass."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from art_core.trajectory.samples import TrainingSample


def reference_loss(
    model: torch.nn.Module,
    samples: Sequence[TrainingSample],
    advantages: Sequence[float],
    *,
    importance_cap: float = 2.0,
) -> torch.Tensor:
    """The loss of the first pass of a step; call ``backward`` on it for the gradient."""
    total = torch.zeros((), dtype=torch.float64)
    for sample, advantage in zip(samples, advantages, strict=True):
        logits = model(input_ids=torch.from_numpy(sample.token_ids)[None], use_cache=False).logits[0]
        logprobs = torch.log_softmax(logits / sample.temperature, dim=-1)
        for position in range(1, len(sample.token_ids)):
            if not sample.mask[position]:
                continue
            new = logprobs[position - 1, int(sample.token_ids[position])]
            old = new.detach()  # nothing has moved yet: the ratio is 1 and no bound is reached
            weight = min(torch.exp(old - float(sample.logprobs[position])).item(), importance_cap)
            total = total - weight * torch.exp(new - old) * advantage
    return total / sum(sample.trained_tokens for sample in samples)
