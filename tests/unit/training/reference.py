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
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> torch.Tensor:
    """The loss of a step; call ``backward`` on it for the gradient."""
    total = torch.zeros((), dtype=torch.float64)
    for sample, advantage in zip(samples, advantages, strict=True):
        logits = model(input_ids=torch.from_numpy(sample.token_ids)[None], use_cache=False).logits[0]
        logprobs = torch.log_softmax(logits / sample.temperature, dim=-1)
        for position in range(1, len(sample.token_ids)):
            if not sample.mask[position]:
                continue
            new = logprobs[position - 1, int(sample.token_ids[position])]
            ratio = torch.exp(new - float(sample.logprobs[position]))
            held = min(max(ratio.item(), 1 - clip_low), 1 + clip_high)
            if ratio.item() * advantage <= held * advantage:
                total = total - ratio * advantage
            else:
                total = total - held * advantage
    return total / sum(sample.trained_tokens for sample in samples)
