"""From scored groups to the rows of one training step, with the fate of every rollout entered in the ledger.

One place decides each rollout's fate, in this order: failed, unscored, no spread, not selected, superseded, not trainable,
over-long, trained. Superseded tokens of a rollout with another fate are superseded all the same.
Rows of groups without spread are never handed to the trainer. Several rows of one rollout share its advantage.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from art_core.errors import NotTrainable, RewardError
from art_core.observe.ledger import Fate, Ledger
from art_core.training.advantages import EPSILON, Baseline, Scale, has_spread, step_advantages
from art_core.trajectory.graph import Turn
from art_core.trajectory.samples import TrainingSample
from art_core.trajectory.trajectory import Trajectory, TrajectoryGroup

from .figures import PARTS, mean_parts

__all__ = ["Batch", "make_batch"]


@dataclass(slots=True, kw_only=True)
class Batch:
    """What one step trains on, and the account of what it sampled."""

    samples: list[TrainingSample] = field(default_factory=list)
    advantages: list[float] = field(default_factory=list)
    """One per sample."""
    ledger: Ledger = field(default_factory=Ledger)
    by_adapter: dict[str, Ledger] = field(default_factory=dict)
    """The account of each adapter: the rollouts it answered in, and its tokens."""
    fates: dict[str, Fate] = field(default_factory=dict)
    """Rollout id → fate."""
    rewards: list[float] = field(default_factory=list)
    """The scores that are there."""
    successes: list[bool] = field(default_factory=list)
    parts: list[Mapping[str, float]] = field(default_factory=list)
    """The parts of each score."""
    forks: Counter[str] = field(default_factory=Counter)
    """Why turns did not extend the ids of an earlier one → how many."""

    def figures(self) -> dict[str, Any]:
        """``reward_mean``, ``reward_std`` (population), ``success`` and the means of the ``reward_parts`` of the scored
        rollouts, None where unknown; and the ``forks`` of all."""
        n = len(self.rewards)
        mean = math.fsum(self.rewards) / n if n else None
        spread = None if mean is None else math.sqrt(math.fsum((r - mean) ** 2 for r in self.rewards) / n)
        success = sum(self.successes) / len(self.successes) if self.successes else None
        return {
            "reward_mean": mean,
            "reward_std": spread,
            "success": success,
            PARTS: mean_parts(self.parts),
            "forks": dict(self.forks),
        }


def make_batch(
    groups: Sequence[TrajectoryGroup],
    *,
    scale: Scale = "std",
    baseline: Baseline = "mean",
    epsilon: float = EPSILON,
    trained_per_group: int | None = None,
    max_row_tokens: int | None = None,
) -> Batch:
    """The rows to train on.

    Args:
        groups: scored siblings; a missing reward is None.
        scale, baseline, epsilon: see ``training.advantages.step_advantages``.
        trained_per_group: how many siblings to train on: the best and the worst, so that their rewards vary most, compared
            with each other alone (max-variance down-sampling, arXiv 2504.13818); None for all.
        max_row_tokens: a rollout with a longer row is left out as over-long; None for no bound.

    Raises:
        RewardError: not one rollout has a score; names the first reason.
    """
    batch = Batch()
    scored = [[None if trajectory.failed else trajectory.reward for trajectory in group] for group in groups]
    chosen = [_selected(rewards, trained_per_group) for rewards in scored]
    by_group = step_advantages(chosen, scale=scale, baseline=baseline, epsilon=epsilon)
    for group, rewards, selected, advantages in zip(groups, scored, chosen, by_group, strict=True):
        spread = has_spread(rewards)
        for index, (trajectory, advantage) in enumerate(zip(group, advantages, strict=True)):
            rows: list[TrainingSample] = []
            if rewards[index] is None:
                fate: Fate = "failed" if trajectory.failed else "unscored"
            elif not spread:
                fate = "no_spread"
            elif selected[index] is None:
                fate = "not_selected"
            else:
                fate, rows = _rows(trajectory, max_row_tokens)
            _enter(batch, trajectory, fate, rows)
            batch.advantages.extend([advantage or 0.0] * len(rows))
    if not batch.rewards:
        raise RewardError(_complaint(groups))
    batch.ledger.check()
    return batch


def _selected(rewards: Sequence[float | None], count: int | None) -> list[float | None]:
    """The rewards of the siblings to train on; None in the place of the others."""
    selected = _most_varied(rewards, count)
    return [reward if index in selected else None for index, reward in enumerate(rewards)]


def _most_varied(rewards: Sequence[float | None], count: int | None) -> set[int]:
    """The indices of the ``count`` scored siblings whose rewards have the largest variance: always some of the best and
    the rest of the worst. Among equals the earlier ones are taken; None takes all."""
    scored = {index: reward for index, reward in enumerate(rewards) if reward is not None}
    order = sorted(scored, key=lambda index: scored[index])
    if count is None or count >= len(order):
        return set(order)
    choices = [order[:low] + order[len(order) - (count - low) :] for low in range(count + 1)]
    return set(max(choices, key=lambda chosen: statistics.pvariance([scored[index] for index in chosen])))


def _rows(trajectory: Trajectory, max_row_tokens: int | None) -> tuple[Fate, list[TrainingSample]]:
    if 0 < trajectory.sampled_tokens == trajectory.superseded_tokens:
        return "superseded", []
    try:
        rows = trajectory.samples()
    except NotTrainable:
        return "not_trainable", []
    if max_row_tokens is not None and any(len(row.token_ids) > max_row_tokens for row in rows):
        return "over_long", []
    return "trained", rows


def _enter(batch: Batch, trajectory: Trajectory, fate: Fate, rows: list[TrainingSample]) -> None:
    batch.ledger.add_rollout(
        fate,
        sampled_tokens=trajectory.sampled_tokens,
        trained_tokens=sum(row.trained_tokens for row in rows) if fate == "trained" else None,
        superseded_tokens=trajectory.superseded_tokens,
        truncated=trajectory.truncated,
    )
    for adapter in sorted(turns := _by_adapter(trajectory)):
        batch.by_adapter.setdefault(adapter, Ledger()).add_rollout(
            fate,
            sampled_tokens=sum(len(turn.completion_ids) for turn in turns[adapter]),
            trained_tokens=sum(row.trained_tokens for row in rows if row.adapter == adapter)
            if fate == "trained"
            else None,
            truncated=any(turn.finish_reason == "length" for turn in turns[adapter]),
        )
    batch.fates[trajectory.rollout_id] = fate
    batch.forks.update(turn.fork for turn in trajectory.graph if turn.fork is not None)
    batch.samples.extend(rows)
    if trajectory.reward is not None and not trajectory.failed:
        batch.rewards.append(trajectory.reward)
        batch.parts.append(trajectory.reward_parts)
        if trajectory.success is not None:
            batch.successes.append(trajectory.success)


def _by_adapter(trajectory: Trajectory) -> dict[str, list[Turn]]:
    turns: dict[str, list[Turn]] = {}
    for turn in trajectory.graph:
        turns.setdefault(turn.adapter, []).append(turn)
    return turns


def _complaint(groups: Sequence[TrajectoryGroup]) -> str:
    rollouts = [trajectory for group in groups for trajectory in group]
    first = next((t for t in rollouts if t.error or t.reward_reason), None)
    reason = (first.error or first.reward_reason) if first else "the reward gave none"
    return f"none of the {len(rollouts)} rollouts of this step has a score; the first reason: {reason}"
