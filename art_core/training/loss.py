"""The clipped policy-gradient loss: pure functions from one frozen record of tensors to a summed loss and its figures.

For a trained token with behaviour logprob ``b`` (what the sampler drew it with), old logprob ``o`` (the trainer's before
the step), new logprob ``n`` and advantage ``A``::

    r    = exp(n - o)
    w    = min(exp(o - b), importance_cap)
    loss = -w * min(r * A, clip(r, 1 - clip_low, 1 + clip_high) * A)

summed over tokens and divided by one *normaliser*: the number of trained tokens of the whole optimizer step, counted
before the step is cut into micro-batches and passed in. How a step is cut can therefore not change the gradient, and a
token counts the same in whichever row it lies: splitting a rollout into more rows (a fork, another temperature) does
not change that rollout's weight, which is its number of trained tokens times its advantage.

With reference logprobs ``f`` (the base model's) and ``kl_coefficient`` above 0, ``kl_coefficient * (n - f)^2 / 2`` is added
to each token's loss: on tokens that the policy drew itself, its gradient is on average that of KL(policy || reference)
per token (the estimator known as k2).

Sources: the ratio and its clipping are PPO's (arXiv 1707.06347); advantages relative to a group are GRPO's (arXiv
2402.03300); the token normaliser over the step and the separate upper bound are DAPO's (arXiv 2503.14476); separating
``o`` from ``b`` is decoupled PPO (arXiv 2110.00641), and the truncated weight ``w`` for what sampler and trainer compute
differently is that of Yao et al. 2025, "Your Efficient RL Framework Secretly Brings You Off-Policy RL Training".

Departures: the divergence uses k2 where GRPO has k3, whose gradient is that of the opposite divergence on average; there is
no value function; the log ratio is limited to +-20 before the exponential, beyond which its gradient is zero. Clipping
against ``b`` instead of ``o`` would cut tokens off in a first pass, where nothing has moved yet: in half precision the few
tokens that decide differ by more than the clip range.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

__all__ = ["LossInputs", "LossOutput", "TokenStats", "policy_loss"]

_LOG_RATIO_LIMIT = 20.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LossInputs:
    """Any shape, the same for all tensors; logprobs in nats, float32."""

    new_logprobs: torch.Tensor
    """Carries the gradient."""
    behaviour_logprobs: torch.Tensor
    old_logprobs: torch.Tensor | None = None
    """The trainer's own before the step; None takes the behaviour logprobs."""
    advantages: torch.Tensor
    reference_logprobs: torch.Tensor | None = None
    """The reference model's; needed by a ``kl_coefficient`` above 0."""
    mask: torch.Tensor
    """True where a token is trained; whatever stands in the others, NaN included, has no effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenStats:
    """Sums over trained tokens; add them up over micro-batches, then divide by ``tokens``."""

    tokens: int = 0
    ratio: float = 0.0
    """``exp(n - b)``: 1 where sampler and trainer agree and nothing has moved."""
    clipped: int = 0
    """Tokens whose gradient the clipping has cut off."""
    kl: float = 0.0
    """``r - 1 - log r``, an estimate of KL(sampler || trainer) in nats that is never negative."""
    kl_reference: float = 0.0
    """``q - 1 - log q`` with ``q = exp(f - n)``, an estimate of KL(trainer || reference) in nats; 0 without a reference."""
    surprise: float = 0.0
    """``-n``: its mean estimates the entropy of the policy when the tokens are its own samples."""

    def __add__(self, other: TokenStats) -> TokenStats:
        return TokenStats(
            tokens=self.tokens + other.tokens,
            ratio=self.ratio + other.ratio,
            clipped=self.clipped + other.clipped,
            kl=self.kl + other.kl,
            kl_reference=self.kl_reference + other.kl_reference,
            surprise=self.surprise + other.surprise,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LossOutput:
    """The loss to call ``backward`` on, and its figures."""

    loss: torch.Tensor
    """() sum of token losses over the normaliser."""
    stats: TokenStats


def policy_loss(
    inputs: LossInputs,
    *,
    clip_low: float,
    clip_high: float,
    normaliser: int,
    kl_coefficient: float = 0.0,
    importance_cap: float = 2.0,
) -> LossOutput:
    """The clipped loss of some of the tokens of a step.

    Args:
        inputs: the tokens of one micro-batch.
        clip_low: how far below 1 a ratio may fall before a negative advantage stops pushing; in [0, 1].
        clip_high: how far above 1 a ratio may rise before a positive advantage stops pushing; >= 0.
        normaliser: trained tokens of the whole step, at least 1.
        kl_coefficient: weight of the divergence from the reference, >= 0.
        importance_cap: most that a token counts for being likelier to the trainer than to the sampler, >= 1.
    """
    mask = inputs.mask
    new = _keep(inputs.new_logprobs, mask)
    behaviour = _keep(inputs.behaviour_logprobs, mask)
    old = behaviour if inputs.old_logprobs is None else _keep(inputs.old_logprobs, mask)
    advantages = _keep(inputs.advantages, mask)
    ratio = _exp(new - old)
    weight = _exp(old - behaviour).clamp(max=importance_cap)
    free = ratio * advantages
    held = ratio.clamp(1.0 - clip_low, 1.0 + clip_high) * advantages
    token_loss = -weight * torch.minimum(free, held)
    if inputs.reference_logprobs is not None:
        away = new - _keep(inputs.reference_logprobs, mask)
        token_loss = token_loss + kl_coefficient * away**2 / 2
    loss = _keep(token_loss, mask).sum() / normaliser
    with torch.no_grad():
        drift = _exp(new - behaviour)
        stats = TokenStats(
            tokens=int(mask.sum()),
            ratio=float(_keep(drift, mask).sum()),
            clipped=int(((held < free) & mask).sum()),
            kl=float((drift - 1.0 - (new - behaviour)).sum()),
            kl_reference=0.0 if inputs.reference_logprobs is None else float((torch.exp(-away) - 1.0 + away).sum()),
            surprise=float(-new.sum()),
        )
    return LossOutput(loss=loss, stats=stats)


def _exp(log_ratio: torch.Tensor) -> torch.Tensor:
    return torch.exp(log_ratio.clamp(-_LOG_RATIO_LIMIT, _LOG_RATIO_LIMIT))


def _keep(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return torch.where(mask, values, torch.zeros_like(values))
