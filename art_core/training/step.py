"""One pass over the samples of a step: checks what was given, then adds up gradients pack by pack.

Every row given is accounted for: computed, or skipped because its advantage is zero and nothing holds it to a reference.
All of them count in the weights, so a row of a group with spread that happens to lie on the mean dilutes like any
other; groups without spread should not be given at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from art_core.errors import InputError, NonFiniteError
from art_core.trajectory.samples import TrainingSample

from .config import TrainingConfig
from .logprobs import SplitModel, run_tree
from .loss import LossInputs, TokenStats, policy_loss, token_weights
from .memory import Budget
from .packing import Node, Pack, build_tree

__all__ = ["Work", "accumulate", "plan", "token_logprobs"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Work:
    """The rows of a step that are worth computing, and the passes they need."""

    samples: tuple[TrainingSample, ...]
    advantages: tuple[float, ...]
    reference: tuple[NDArray[np.float32], ...] | None
    """Per sample (L,) logprobs of its trained tokens under the reference model; None where it is not needed."""
    old: torch.Tensor
    """Logprobs before the step of all rows end to end; NaN until the first pass has computed them."""
    log_ratios: torch.Tensor
    """(rows,) mean of new minus old logprobs over each row's rollout; 0 until a later pass has measured it."""
    weights: tuple[float, ...]
    """What a trained token of each row counts in the loss."""
    tokens: int
    """Trained tokens of all rows given, skipped ones included."""
    masked: dict[str, int]
    """Rollouts that the sampler and the trainer see too differently, with their trained tokens."""
    tree: Node
    frugal: bool
    """Compute shared runs twice instead of keeping what their backward pass needs."""
    forward_tokens: int
    """Tokens of one pass through the tree, without padding."""
    row_tokens: int


def plan(
    samples: Sequence[TrainingSample],
    advantages: Sequence[float],
    *,
    model: SplitModel,
    config: TrainingConfig,
    budget: Budget | None = None,
    reference: Callable[[Sequence[TrainingSample]], list[NDArray[np.float32]]] | None = None,
) -> Work:
    """Check the rows and lay out their forward passes.

    Args:
        samples, advantages: the rows of the step, one advantage each.
        budget: tokens of a pass, where these are not as configured.
        reference: gives the logprobs of the model to stay close to.

    Raises:
        InputError: the lengths differ, an advantage is not finite, or a row is not something this model can be trained
            on (an id outside the vocabulary, a behaviour logprob that is not one, a temperature of 0, two adapters).
    """
    _check_all(samples, advantages, model.vocab_size)
    budget = budget or Budget(config.micro_batch_tokens)
    weights = token_weights(
        [(sample.rollout_id, sample.trained_tokens) for sample in samples],
        config.rule.weighting,
        config.constant_length,
    )
    held = reference is not None and any(advantages)
    chosen = [
        (sample, float(advantage), weight)
        for sample, advantage, weight in zip(samples, advantages, weights, strict=True)
        if sample.trained_tokens > 0 and (advantage != 0.0 or held)
    ]
    masked: dict[str, int] = {}
    if config.rollout_ratio is not None:
        logprobs = token_logprobs([sample for sample, _, _ in chosen], model=model, config=config, budget=budget)
        masked = _too_different([sample for sample, _, _ in chosen], logprobs, config.rollout_ratio)
        chosen = [row for row in chosen if row[0].rollout_id not in masked]
    rows = tuple(sample for sample, _, _ in chosen)
    tree = _tree(rows, model, config, budget)
    return Work(
        samples=rows,
        advantages=tuple(advantage for _, advantage, _ in chosen),
        reference=None if reference is None else tuple(reference(rows)),
        old=torch.full((sum(len(sample.token_ids) for sample in rows),), math.nan, device=model.device),
        log_ratios=torch.zeros(len(rows), device=model.device),
        weights=tuple(weight for _, _, weight in chosen),
        tokens=sum(sample.trained_tokens for sample in samples),
        masked=masked,
        tree=tree,
        frugal=budget.frugal,
        forward_tokens=sum(len(pack.token_ids) for pack in tree.every_pack()),
        row_tokens=sum(int(np.flatnonzero(sample.mask)[-1]) for sample in rows),
    )


def _too_different(
    rows: Sequence[TrainingSample], logprobs: Sequence[NDArray[np.float32]], bounds: tuple[float, float]
) -> dict[str, int]:
    """The rollouts whose geometric mean of trainer over sampler probabilities is out of bounds, and their trained tokens."""
    gaps = [
        float((own - row.logprobs)[row.mask].sum(dtype=np.float64)) for row, own in zip(rows, logprobs, strict=True)
    ]
    low, high = (math.log(bound) if bound else -math.inf for bound in bounds)
    masked: dict[str, int] = {}
    for row, mean in zip(rows, _rollout_means(rows, gaps), strict=True):
        if mean < low or mean > high:  # NaN is kept here: the loss tells of it
            masked[row.rollout_id] = masked.get(row.rollout_id, 0) + row.trained_tokens
    return masked


def _rollout_means(rows: Sequence[TrainingSample], sums: Sequence[float]) -> list[float]:
    """For each row the mean over the trained tokens of its whole rollout, from the sums over the rows' own."""
    total: dict[str, float] = {}
    tokens: dict[str, int] = {}
    for row, own in zip(rows, sums, strict=True):
        total[row.rollout_id] = total.get(row.rollout_id, 0.0) + own
        tokens[row.rollout_id] = tokens.get(row.rollout_id, 0) + row.trained_tokens
    return [total[row.rollout_id] / tokens[row.rollout_id] for row in rows]


def accumulate(
    work: Work, model: SplitModel, config: TrainingConfig, on_progress: Callable[[float], None] | None = None
) -> tuple[float, TokenStats]:
    """Add the gradient of one pass to the parameters; returns the loss and the token figures.

    Raises:
        NonFiniteError: a loss or a logprob is NaN or infinite; names the rows. Gradients may be half filled.
    """
    flat, rule = _Flat(work, model.device), config.rule
    if rule.ratio == "rollout" and not work.old.isnan().all():
        _measure_rollouts(work, flat, model)
    loss, stats = 0.0, TokenStats()

    def on_tokens(pack: Pack, ask: torch.Tensor, logprobs: torch.Tensor) -> torch.Tensor:
        nonlocal loss, stats
        inputs = flat.inputs(pack, ask, logprobs)
        output = policy_loss(inputs, rule)
        value = float(output.loss.detach())
        if not (math.isfinite(value) and math.isfinite(output.stats.surprise)):
            raise NonFiniteError(_summary(work, pack, value))
        loss += value
        stats = stats + output.stats
        if on_progress is not None:
            on_progress(stats.tokens / flat.total)
        return output.loss

    run_tree(model, work.tree, on_tokens, gradients=True, frugal=work.frugal)
    return loss, stats


def _measure_rollouts(work: Work, flat: _Flat, model: SplitModel) -> None:
    """Fill ``work.log_ratios`` under the present weights, by a pass without gradients."""
    sums = torch.zeros_like(work.log_ratios)

    def on_tokens(pack: Pack, ask: torch.Tensor, logprobs: torch.Tensor) -> None:
        inputs = flat.inputs(pack, ask, logprobs)
        assert inputs.old_logprobs is not None
        rows = torch.from_numpy(pack.ask_row[ask.cpu().numpy()]).to(sums.device)
        sums.index_add_(0, rows, logprobs - inputs.old_logprobs)

    run_tree(model, work.tree, on_tokens, gradients=False)
    work.log_ratios.copy_(torch.tensor(_rollout_means(work.samples, sums.tolist())))


def token_logprobs(
    samples: Sequence[TrainingSample], *, model: SplitModel, config: TrainingConfig, budget: Budget | None = None
) -> list[NDArray[np.float32]]:
    """Per sample (L,) logprobs in nats at its temperature under the present weights; 0 where ``mask`` is False.

    The code path is that of training, without gradients.
    """
    for sample in samples:
        _check(sample, 0.0, model.vocab_size)
    rows = [index for index, sample in enumerate(samples) if sample.trained_tokens > 0]
    result = [np.zeros(len(sample.token_ids), dtype=np.float32) for sample in samples]

    def on_tokens(pack: Pack, ask: torch.Tensor, logprobs: torch.Tensor) -> None:
        index = ask.cpu().numpy()
        for row, position, value in zip(
            pack.ask_row[index], pack.ask_position[index], logprobs.cpu().numpy(), strict=True
        ):
            result[rows[row]][position] = value

    tree = _tree([samples[row] for row in rows], model, config, budget or Budget(config.micro_batch_tokens))
    run_tree(model, tree, on_tokens, gradients=False)
    return result


def _tree(rows: Sequence[TrainingSample], model: SplitModel, config: TrainingConfig, budget: Budget) -> Node:
    return build_tree(
        rows,
        micro_batch_tokens=budget.tokens,
        min_shared_tokens=config.min_shared_tokens if model.shares_prefixes else None,
        cut=budget.frugal,
    )


class _Flat:
    """Behaviour, old and reference logprobs and advantages of all rows end to end: any set of trained tokens is one lookup."""

    def __init__(self, work: Work, device: torch.device) -> None:
        lengths = [len(sample.token_ids) for sample in work.samples]
        self._offsets = np.cumsum([0, *lengths])
        self._behaviour = torch.from_numpy(np.concatenate([s.logprobs for s in work.samples])).float().to(device)
        self._reference = (
            None if work.reference is None else torch.from_numpy(np.concatenate(work.reference)).float().to(device)
        )
        self._advantages = torch.tensor(work.advantages, dtype=torch.float32, device=device)
        self._weights = torch.tensor(work.weights, dtype=torch.float32, device=device)
        self._log_ratios = work.log_ratios
        self._old = work.old
        self.total = sum(sample.trained_tokens for sample in work.samples)

    def inputs(self, pack: Pack, ask: torch.Tensor, logprobs: torch.Tensor) -> LossInputs:
        index = ask.cpu().numpy()
        rows = pack.ask_row[index]
        where = torch.from_numpy(self._offsets[rows] + pack.ask_position[index]).to(ask.device)
        of_row = torch.from_numpy(rows).to(ask.device)
        known = self._old[where]
        self._old[where] = old = torch.where(known.isnan(), logprobs.detach(), known)
        return LossInputs(
            new_logprobs=logprobs,
            behaviour_logprobs=self._behaviour[where],
            old_logprobs=old,
            rollout_log_ratios=self._log_ratios[of_row],
            advantages=self._advantages[of_row],
            weights=self._weights[of_row],
            reference_logprobs=None if self._reference is None else self._reference[where],
            mask=torch.ones_like(logprobs, dtype=torch.bool),
        )


def _check_all(samples: Sequence[TrainingSample], advantages: Sequence[float], vocab_size: int) -> None:
    if len(samples) != len(advantages):
        raise InputError(f"{len(samples)} samples but {len(advantages)} advantages; give one advantage per sample")
    for sample, advantage in zip(samples, advantages, strict=True):
        _check(sample, advantage, vocab_size)
    if len(adapters := sorted({sample.adapter for sample in samples})) > 1:
        raise InputError(f"the samples belong to several adapters, {adapters}; a step trains one")


def _check(sample: TrainingSample, advantage: float, vocab_size: int) -> None:
    name = f"the sample of rollout {sample.rollout_id!r}"
    if not math.isfinite(advantage):
        raise InputError(f"{name} has the advantage {advantage!r}; it must be a finite number")
    if not (math.isfinite(sample.temperature) and sample.temperature > 0):
        raise InputError(f"{name} was sampled at temperature {sample.temperature!r}; only positive ones are trainable")
    outside = sample.token_ids[(sample.token_ids < 0) | (sample.token_ids >= vocab_size)]
    if len(outside):
        raise InputError(f"{name} holds token id {int(outside[0])}; the model's ids run from 0 to {vocab_size - 1}")
    trained = sample.logprobs[sample.mask]
    wrong = trained[~(np.isfinite(trained) & (trained <= 1e-3))]
    if len(wrong):
        raise InputError(f"{name} has the behaviour logprob {float(wrong[0])!r}; it must be finite and at most 0")


def _summary(work: Work, pack: Pack, loss: float) -> str:
    rows = sorted(set(pack.ask_row.tolist()))
    told = ", ".join(
        f"{work.samples[row].rollout_id!r} ({len(work.samples[row].token_ids)} tokens, "
        f"{work.samples[row].trained_tokens} trained, advantage {work.advantages[row]:.3g})"
        for row in rows[:3]
    )
    more = f" and {len(rows) - 3} more" if len(rows) > 3 else ""
    return f"the loss of a pack is {loss} (or one of its logprobs is not finite); its rows: {told}{more}"
