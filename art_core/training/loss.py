"""The clipped policy-gradient loss: pure functions from one frozen record of tensors to a summed loss and its figures.

For a trained token with behaviour logprob ``b`` (what the sampler drew it with), new logprob ``n`` and advantage ``A``::

    r    = exp(n - b)
    loss = -min(r * A, clip(r, 1 - clip_low, 1 + clip_high) * A)

summed over tokens and divided by one *normaliser*: the number of trained tokens of the whole optimizer step, counted
before the step is cut into micro-batches and passed in. How a step is cut can therefore not change the gradient, and a
token counts the same in whichever row it lies: splitting a rollout into more rows (a fork, another temperature) does
not change that rollout's weight, which is its number of trained tokens times its advantage.

Sources: the ratio and its clipping are PPO's (arXiv 1707.06347); advantages relative to a group are GRPO's (arXiv
2402.03300); the token normaliser over the step and the separate upper bound are DAPO's (arXiv 2503.14476).

Departures: the denominator of the ratio is the sampler's own logprob, so clipping also bounds the mismatch between
sampler and trainer; there is no KL term and no value function; the log ratio is limited to +-20 before the exponential,
beyond which its gradient is zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

__all__ = ["LossInputs", "LossOutput", "TokenStats", "policy_loss"]

_LOG_RATIO_LIMIT = 20.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LossInputs:
    """Any shape, the same for all four tensors; logprobs in nats, float32."""

    new_logprobs: torch.Tensor
    """Carries the gradient."""
    behaviour_logprobs: torch.Tensor
    advantages: torch.Tensor
    mask: torch.Tensor
    """True where a token is trained; whatever stands in the others, NaN included, has no effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenStats:
    """Sums over trained tokens; add them up over micro-batches, then divide by ``tokens``."""

    tokens: int = 0
    ratio: float = 0.0
    clipped: int = 0
    """Tokens whose gradient the clipping has cut off."""
    kl: float = 0.0
    """``r - 1 - log r``, an estimate of KL(sampler || trainer) in nats that is never negative."""
    surprise: float = 0.0
    """``-n``: its mean estimates the entropy of the policy when the tokens are its own samples."""

    def __add__(self, other: TokenStats) -> TokenStats:
        return TokenStats(
            tokens=self.tokens + other.tokens,
            ratio=self.ratio + other.ratio,
            clipped=self.clipped + other.clipped,
            kl=self.kl + other.kl,
            surprise=self.surprise + other.surprise,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LossOutput:
    """The loss to call ``backward`` on, and its figures."""

    loss: torch.Tensor
    """() sum of token losses over the normaliser."""
    stats: TokenStats


def policy_loss(inputs: LossInputs, *, clip_low: float, clip_high: float, normaliser: int) -> LossOutput:
    """The clipped loss of some of the tokens of a step.

    Args:
        inputs: the tokens of one micro-batch.
        clip_low: how far below 1 a ratio may fall before a negative advantage stops pushing; in [0, 1].
        clip_high: how far above 1 a ratio may rise before a positive advantage stops pushing; >= 0.
        normaliser: trained tokens of the whole step, at least 1.
    """
    mask = inputs.mask
    new = _keep(inputs.new_logprobs, mask)
    log_ratio = new - _keep(inputs.behaviour_logprobs, mask)
    advantages = _keep(inputs.advantages, mask)
    ratio = torch.exp(log_ratio.clamp(-_LOG_RATIO_LIMIT, _LOG_RATIO_LIMIT))
    free = ratio * advantages
    held = ratio.clamp(1.0 - clip_low, 1.0 + clip_high) * advantages
    loss = _keep(-torch.minimum(free, held), mask).sum() / normaliser
    with torch.no_grad():
        stats = TokenStats(
            tokens=int(mask.sum()),
            ratio=float(_keep(ratio, mask).sum()),
            clipped=int(((held < free) & mask).sum()),
            kl=float((ratio - 1.0 - log_ratio).sum()),
            surprise=float(-new.sum()),
        )
    return LossOutput(loss=loss, stats=stats)


def _keep(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return torch.where(mask, values, torch.zeros_like(values))
