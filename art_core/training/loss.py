"""The policy-gradient losses: pure functions from one frozen record of tensors to a summed loss and its figures.

For a trained token with behaviour logprob ``b`` (what the sampler drew it with), old logprob ``o`` (the trainer's before
the step), new logprob ``n`` and advantage ``A``, in a rollout with ``L`` trained tokens::

    r = exp(n - o)                                  the token's ratio
    s = exp(mean over the rollout of n - o)         the rollout's ratio
    w = min(exp(o - b), importance_cap)             constant: what sampler and trainer compute differently

==============  ==========================================================================  ============================
objective       token loss                                                                  source
==============  ==========================================================================  ============================
``clip``        ``-w * min(q * A, clip(q, 1 - clip_low, 1 + clip_high) * A)``, q = r or s     PPO, arXiv 1707.06347;
                                                                                            s: GSPO, arXiv 2507.18071
``cispo``       ``-w * clip(r, 1 - clip_low, 1 + clip_high) * A * n``, the factor constant     CISPO, arXiv 2506.13585
``reinforce``   ``-w * A * n``                                                                Williams 1992
``likelihood``  ``-A * n``, for tokens that the policy did not sample: ``b`` has no meaning.  cross entropy
                All ``A`` are 1 in supervised fine-tuning
==============  ==========================================================================  ============================

Token losses are multiplied by the token's *weight* and summed. Weights are fixed for the whole optimizer step before it is
cut into packs (``token_weights``), so that how a step is cut cannot change the gradient; they count rollouts, not rows: the
rows a rollout becomes do not change what it weighs. With ``token`` weights it weighs by the tokens it sampled, in whatever
branches.

The named losses (``config.RULES``) are these with the weights and bounds of their papers. RLOO (arXiv 2402.14740) is
``reinforce`` with advantages that leave oneself out and are not divided by a spread.

With reference logprobs ``f`` and ``kl_coefficient`` above 0, a divergence from the reference is added, by one of three
estimators (http://joschu.net/blog/kl-approx.html)::

    k1    A becomes A - kl_coefficient * (o - f): part of the reward, as in arXiv 1909.08593
    k2    kl_coefficient * (n - f)^2 / 2 in the loss: on the policy's own samples its gradient is that of KL(policy || reference)
    k3    kl_coefficient * (exp(f - n) - 1 - (f - n)) in the loss: GRPO's; its gradient is that of KL(reference || policy)

Other sources: separating ``o`` from ``b`` is decoupled PPO (arXiv 2110.00641); the truncated weight ``w`` is that of Yao et
al. 2025, "Your Efficient RL Framework Secretly Brings You Off-Policy RL Training".

Departures: of DAPO, its token weights and its higher upper bound are here, its punishment of over-long replies is a matter of
the reward, and groups without spread are dropped, not sampled again; GRPO comes without its divergence (0.04 times k3 in
the paper) unless ``kl_coefficient`` asks for one; there is no value function; log ratios are limited to +-20 before the exponential, beyond which their gradient
is zero; the gradient of ``s`` is spread over its tokens as in GSPO-token, which is equal where all tokens of a rollout have
one advantage and one ``w``. Clipping against ``b`` instead of ``o`` would cut tokens off in a first pass, where nothing has moved yet:
in half precision the few tokens that decide differ by more than the clip range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from .config import LossRule, Weighting

__all__ = ["LossInputs", "LossOutput", "TokenStats", "policy_loss", "token_weights"]

_LOG_RATIO_LIMIT = 20.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LossInputs:
    """Any shape, the same for all tensors; logprobs in nats, float32."""

    new_logprobs: torch.Tensor
    """Carries the gradient."""
    behaviour_logprobs: torch.Tensor
    old_logprobs: torch.Tensor | None = None
    """The trainer's own before the step; None takes the behaviour logprobs."""
    rollout_log_ratios: torch.Tensor | None = None
    """Mean of new minus old over the token's rollout, a constant; needed by rules whose ratio is the rollout's."""
    advantages: torch.Tensor
    weights: torch.Tensor
    """What a token counts in the loss of the step: see ``token_weights``."""
    reference_logprobs: torch.Tensor | None = None
    """The reference model's; needed by a ``kl_coefficient`` above 0."""
    mask: torch.Tensor
    """True where a token is trained; whatever stands in the others, NaN included, has no effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenStats:
    """Sums over trained tokens; add them up over packs, then divide by ``tokens``."""

    tokens: int = 0
    ratio: float = 0.0
    """``exp(n - b)``: 1 where sampler and trainer agree and nothing has moved."""
    clipped: int = 0
    """Tokens at which a bound took effect: their gradient is cut off (``clip``) or made smaller (``cispo``)."""
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
    """() sum of token losses times their weights."""
    stats: TokenStats


def token_weights(rollouts: Sequence[tuple[str, int]], weighting: Weighting, constant_length: int) -> list[float]:
    """What each trained token of a row counts, so that all weights of a step are a mean of some kind.

    Args:
        rollouts: for each row of the step the id of its rollout and its trained tokens.
        weighting: ``token``: every token of the step counts the same, 1 / all tokens (DAPO, arXiv 2503.14476);
            ``rollout``: every rollout counts the same, 1 / (rollouts * its tokens) (GRPO, arXiv 2402.03300);
            ``constant``: 1 / (rollouts * constant_length), so that length is neither rewarded nor punished (Dr. GRPO, arXiv
            2503.20783).
        constant_length: trained tokens that ``constant`` assumes of a rollout.

    Returns:
        One weight per row.
    """
    tokens: dict[str, int] = {}
    for rollout, count in rollouts:
        tokens[rollout] = tokens.get(rollout, 0) + count
    total = sum(tokens.values())
    if weighting == "token":
        return [1.0 / max(1, total) for _ in rollouts]
    if weighting == "constant":
        return [1.0 / (len(tokens) * constant_length) for _ in rollouts]
    return [1.0 / (len(tokens) * max(1, tokens[rollout])) for rollout, _ in rollouts]


def policy_loss(inputs: LossInputs, rule: LossRule) -> LossOutput:
    """The loss of some of the tokens of a step, by the formulas at the head of this module."""
    mask = inputs.mask
    new = _keep(inputs.new_logprobs, mask)
    behaviour = _keep(inputs.behaviour_logprobs, mask)
    old = behaviour if inputs.old_logprobs is None else _keep(inputs.old_logprobs, mask)
    advantages = _keep(inputs.advantages, mask)
    away = None if inputs.reference_logprobs is None else new - _keep(inputs.reference_logprobs, mask)
    if away is not None and rule.kl_estimator == "k1":
        advantages = advantages - rule.kl_coefficient * (old - new + away).detach()
    surrogate, bounded = _surrogate(new, _ratio(inputs, rule, new, old), advantages, rule)
    token_loss = -surrogate
    if rule.objective != "likelihood":
        token_loss = _exp(old - behaviour).clamp(max=rule.importance_cap) * token_loss
    if away is not None and rule.kl_estimator != "k1":
        token_loss = token_loss + rule.kl_coefficient * (away**2 / 2 if rule.kl_estimator == "k2" else _k3(away))
    loss = (_keep(token_loss, mask) * _keep(inputs.weights, mask)).sum()
    with torch.no_grad():
        drift = _exp(new - behaviour)
        stats = TokenStats(
            tokens=int(mask.sum()),
            ratio=float(_keep(drift, mask).sum()),
            clipped=int((bounded & mask).sum()),
            kl=float((drift - 1.0 - (new - behaviour)).sum()),
            kl_reference=0.0 if away is None else float(_k3(away).sum()),
            surprise=float(-new.sum()),
        )
    return LossOutput(loss=loss, stats=stats)


def _ratio(inputs: LossInputs, rule: LossRule, new: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
    if rule.ratio == "token":
        return _exp(new - old)
    assert inputs.rollout_log_ratios is not None
    return _exp(_keep(inputs.rollout_log_ratios, inputs.mask) + new - new.detach())


def _surrogate(
    new: torch.Tensor, ratio: torch.Tensor, advantages: torch.Tensor, rule: LossRule
) -> tuple[torch.Tensor, torch.Tensor]:
    """What is to be made large, and where a bound took effect."""
    if rule.objective in ("reinforce", "likelihood"):
        return advantages * new, torch.zeros_like(new, dtype=torch.bool)
    held = ratio.clamp(1.0 - rule.clip_low, 1.0 + rule.clip_high)
    if rule.objective == "cispo":
        return held.detach() * advantages * new, held != ratio
    free = ratio * advantages
    return torch.minimum(free, held * advantages), held * advantages < free


def _k3(away: torch.Tensor) -> torch.Tensor:
    return _exp(-away) - 1.0 + away


def _exp(log_ratio: torch.Tensor) -> torch.Tensor:
    return torch.exp(log_ratio.clamp(-_LOG_RATIO_LIMIT, _LOG_RATIO_LIMIT))


def _keep(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return torch.where(mask, values, torch.zeros_like(values))
