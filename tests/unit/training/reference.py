"""T30: the losses in plain loops, one row and one token at a time, through the model's own forward pass."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from art_core.training.config import LossRule
from art_core.trajectory.samples import TrainingSample

Logprobs = dict[tuple[int, int], torch.Tensor]
"""By row and position."""


def reference_logprobs(model: torch.nn.Module, samples: Sequence[TrainingSample]) -> Logprobs:
    """The logprob of every trained token, at its temperature."""
    found: Logprobs = {}
    for row, sample in enumerate(samples):
        logits = model(input_ids=torch.from_numpy(sample.token_ids)[None], use_cache=False).logits[0]
        logprobs = torch.log_softmax(logits / sample.temperature, dim=-1)
        for position in range(1, len(sample.token_ids)):
            if sample.mask[position]:
                found[row, position] = logprobs[position - 1, int(sample.token_ids[position])]
    return found


def reference_loss(
    model: torch.nn.Module,
    samples: Sequence[TrainingSample],
    advantages: Sequence[float],
    *,
    rule: LossRule = LossRule(),  # noqa: B008 - a frozen value
    old: Logprobs | None = None,
    reference: Logprobs | None = None,
    constant_length: int = 256,
) -> torch.Tensor:
    """The loss of a step; ``old`` are the logprobs before it (None: the model has not moved), ``reference`` those of the
    model to stay close to. Call ``backward`` on it."""
    new = reference_logprobs(model, samples)
    old = {place: value.detach() for place, value in (old or new).items()}
    rollouts = {sample.rollout_id for sample in samples}
    total = torch.zeros((), dtype=torch.float64)
    for rollout in sorted(rollouts):
        places = [place for place in new if samples[place[0]].rollout_id == rollout]
        mean = torch.stack([new[place] - old[place] for place in places]).mean()
        for row, position in places:
            place, advantage, divergence = (row, position), advantages[row], 0.0
            if reference is not None:
                away = new[place] - reference[place]
                if rule.kl_estimator == "k1":
                    advantage -= rule.kl_coefficient * float(old[place] - reference[place])
                else:
                    estimate = away**2 / 2 if rule.kl_estimator == "k2" else torch.exp(-away) - 1 + away
                    divergence = rule.kl_coefficient * estimate
            log_ratio = new[place] - old[place] if rule.ratio == "token" else mean
            ratio = torch.exp(log_ratio)
            held = torch.clamp(ratio, 1 - rule.clip_low, 1 + rule.clip_high)
            gain = {
                "clip": torch.minimum(ratio * advantage, held * advantage),
                "cispo": held.detach() * advantage * new[place],
                "reinforce": advantage * new[place],
            }[rule.objective]
            weight = min(math.exp(old[place].item() - float(samples[row].logprobs[position])), rule.importance_cap)
            share = {
                "token": 1 / len(new),
                "rollout": 1 / (len(rollouts) * len(places)),
                "constant": 1 / (len(rollouts) * constant_length),
            }[rule.weighting]
            total = total + (divergence - weight * gain) * share
    return total
