"""The trainer's options and the report of a step; light, so that reading a configuration loads no tensor library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from art_core.config import Config

__all__ = ["LossName", "LossRule", "StepReport", "TrainingConfig", "Weighting"]

LossName = Literal["grpo", "dr_grpo", "dapo", "gspo", "cispo", "reinforce"]
KlEstimator = Literal["k1", "k2", "k3"]
Weighting = Literal["token", "rollout", "constant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LossRule:
    """How token losses are computed and weighed; the formulas stand in ``loss``."""

    objective: Literal["clip", "cispo", "reinforce", "likelihood"] = "clip"
    ratio: Literal["token", "rollout"] = "token"
    weighting: Weighting = "token"
    clip_low: float = 0.2
    clip_high: float = 0.2
    importance_cap: float = 2.0
    kl_estimator: KlEstimator = "k2"
    kl_coefficient: float = 0.0


RULES: Mapping[LossName, LossRule] = {
    "grpo": LossRule(weighting="rollout"),
    "dr_grpo": LossRule(weighting="constant"),
    "dapo": LossRule(clip_high=0.28),
    "gspo": LossRule(ratio="rollout", weighting="rollout", clip_low=3e-4, clip_high=4e-4),
    "cispo": LossRule(objective="cispo", clip_low=1.0, clip_high=4.0),
    "reinforce": LossRule(objective="reinforce"),
}
"""Each loss with the bounds of its paper."""


class TrainingConfig(Config):
    """How samples and advantages become an update of the LoRA."""

    learning_rate: float = Field(default=5e-4, gt=0)
    """Peak learning rate of AdamW. A run that begins from an adapter has 1e-4 unless it is given another."""
    warmup_updates: int = Field(default=0, ge=0)
    """Updates over which the learning rate rises linearly to its peak; 0 starts at the peak."""
    schedule: Literal["constant", "linear"] = "constant"
    """After the warm-up: stay at the peak, or fall linearly to zero at ``total_updates``."""
    total_updates: int | None = Field(default=None, ge=1)
    """Updates of the whole run; needed by, and only by, the linear schedule."""
    betas: tuple[float, float] = (0.9, 0.999)
    """AdamW's decay rates of the first and second moment."""
    weight_decay: float = Field(default=0.0, ge=0)
    """AdamW's decoupled weight decay."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """The gradient of an update is scaled down to this L2 norm if it is longer."""
    loss: LossName = "dapo"
    """``grpo``: every rollout counts the same; ``dapo``: every token; ``dr_grpo``: every rollout over a constant length;
    ``gspo``: ratios of whole rollouts; ``cispo``: ratios bounded as constant factors; ``reinforce``: no ratio, one pass.
    With one pass every ratio is 1: ``dapo``, ``cispo`` and ``reinforce`` then train alike."""
    clip_low: float | None = Field(default=None, ge=0, le=1)
    """How far a step may make a token less likely, as a ratio below 1, before it stops being pushed down; default: the
    loss's own. The first pass starts at 1, so this and ``clip_high`` matter from the second on."""
    clip_high: float | None = Field(default=None, ge=0)
    """How far a step may make a token likelier, as a ratio above 1, before it stops being pushed up; default: the loss's
    own."""
    constant_length: int = Field(default=256, ge=1)
    """Trained tokens that ``dr_grpo`` assumes of every rollout."""
    importance_cap: float = Field(default=2.0, ge=1)
    """A token that the trainer finds likelier than the sampler did counts that many times more, at most so many."""
    rollout_ratio: tuple[float, float] | None = None
    """Leave a rollout out where the geometric mean of its tokens' probabilities, the trainer's over the sampler's, is not
    between these, such as (0.98, 1.02): what sampler and trainer see too differently teaches nothing (Liu, Li et al. 2025,
    "When Speed Kills Stability"). Costs one more forward pass a step; none unless given."""
    kl_coefficient: float = Field(default=0.0, ge=0)
    """Weight of the divergence from the reference model, which keeps what a few noisy steps would otherwise unlearn; costs
    one more forward pass a step. Groups without spread are not trained, and so not held either. 0 leaves it out."""
    kl_reference: Literal["base", "start"] = "base"
    """What ``kl_coefficient`` holds the policy to: the ``base`` model, or the adapter the run ``start``ed from."""
    kl_estimator: KlEstimator = "k2"
    """``k1`` lowers the advantages, ``k2`` and ``k3`` are part of the loss."""
    passes: int = Field(default=1, ge=1)
    """Updates made from the samples of one step, each from all of them."""
    micro_batch_tokens: int = Field(default=1024, ge=1)
    """Most tokens that go through the model at once; bounds memory and never changes the result. Halved, for the rest of the
    process, when memory runs out."""
    min_shared_tokens: int = Field(default=16, ge=1)
    """A prefix that rows share is computed once where that saves at least so many tokens."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.schedule == "linear" and self.total_updates is None:
            raise ValueError("schedule 'linear' needs total_updates")
        if self.schedule == "constant" and self.total_updates is not None:
            raise ValueError("total_updates is only used by schedule 'linear'")
        if self.total_updates is not None and self.warmup_updates >= self.total_updates:
            raise ValueError(f"warmup_updates must be below total_updates ({self.total_updates})")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError("both betas must be in [0, 1)")
        return self

    @model_validator(mode="after")
    def _consistent_loss(self) -> Self:
        if self.loss == "reinforce" and self.passes > 1:
            raise ValueError(
                "loss 'reinforce' has no ratio; more than one pass over the same samples needs another loss"
            )
        if self.rollout_ratio is not None and not 0 <= self.rollout_ratio[0] < 1 < self.rollout_ratio[1]:
            raise ValueError(f"rollout_ratio {self.rollout_ratio} must be a bound below 1 and one above")
        for name, used in self._conditional().items():
            if not used and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} = {getattr(self, name)!r} has no effect with these settings; leave it out")
        return self

    def _conditional(self) -> dict[str, bool]:
        """Options that only some settings use, and whether these do."""
        bounded = self.loss != "reinforce" and self.passes > 1  # in the first pass every ratio is 1
        return {
            "clip_low": bounded,
            "clip_high": bounded,
            "constant_length": self.loss == "dr_grpo",
            "kl_estimator": self.kl_coefficient > 0,
            "kl_reference": self.kl_coefficient > 0,
        }

    @property
    def rule(self) -> LossRule:
        """The loss with this configuration's numbers."""
        rule = RULES[self.loss]
        return replace(
            rule,
            clip_low=rule.clip_low if self.clip_low is None else self.clip_low,
            clip_high=rule.clip_high if self.clip_high is None else self.clip_high,
            importance_cap=self.importance_cap,
            kl_estimator=self.kl_estimator,
            kl_coefficient=self.kl_coefficient,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """What one call of ``GrpoTrainer.step`` did. Means are over the tokens that went through the loss."""

    updated: bool
    """False when nothing could be learnt (no rows, or every advantage 0): no weight changed, no step was counted."""
    loss: float
    grad_norm: float
    """L2 norm before clipping; of the last pass."""
    learning_rate: float
    """Of the last pass; 0 when nothing was updated."""
    rows: int
    """Rows given."""
    rows_skipped: int
    """Rows that were not computed because their advantage is 0 (or nothing in them is trained)."""
    tokens: int
    """Trained tokens of all rows given."""
    masked_rollouts: int
    """Rollouts left out by ``rollout_ratio``; they are part of ``rows_skipped``."""
    masked_tokens: int
    """Their trained tokens."""
    forward_tokens: int
    """Tokens of the tree that was trained, padding not counted, shared prefixes once, over all passes. What only measures
    (the reference, ``rollout_ratio``, the ratios of ``gspo``), and what is computed twice to save memory, is not counted."""
    row_tokens: int
    """Tokens of the computed rows had each been run in full, over all passes."""
    micro_batch_tokens: int
    """Most tokens that went through the model at once: as configured, or fewer since memory ran out."""
    ratio_mean: float
    clip_fraction: float
    kl_behaviour: float
    """Estimate of KL(sampler || trainer) in nats, never negative: mean of ``r - 1 - log r``."""
    kl_base: float | None
    """Estimate of KL(trainer || reference) in nats, never negative: mean of ``q - 1 - log q``, where q is the probability
    under the reference (``kl_reference``: the base unless told otherwise) over the trainer's; None where
    ``kl_coefficient`` is 0."""
    entropy: float
    """Mean of minus the new logprob in nats: the policy's entropy, estimated from its own samples."""
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a metrics row."""
        return asdict(self)
