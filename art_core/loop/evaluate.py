"""Evaluation: one rollout per held-out scenario, and what may be said of the outcomes.

A missing score is counted apart and never becomes 0. Comparisons are paired: the same scenario before and after, over
the scenarios scored both times. Which interval was used is named beside every interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from art_core.inference.protocol import Policy
from art_core.rewards.protocol import RewardLike
from art_core.rollout.group import gather
from art_core.rollout.limits import Limits
from art_core.rollout.protocol import Agent
from art_core.scenario import Scenario
from art_core.trajectory.trajectory import Trajectory

from .figures import PARTS, mean_parts
from .intervals import BOOTSTRAP, NEWCOMBE, WILSON, Interval, bootstrap_mean, newcombe_paired, wilson

__all__ = ["Evaluation", "Gain", "Outcome", "evaluate", "gain", "outcomes_of"]

Label = Literal["before", "warm-start", "after", "step"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one scenario."""

    scenario: str
    """Its id."""
    reward: float | None
    success: bool | None
    parts: Mapping[str, float] = field(default_factory=dict)
    """The parts of the reward."""
    reason: str = ""
    """Why the score is what it is, or why it is missing."""
    stop_reason: str | None = None
    sampled_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The outcomes of one pass over a split.

    >>> e = Evaluation(split="test", label="before", step=0, seconds=1.0,
    ...                outcomes=(Outcome(scenario="a", reward=1.0, success=True), Outcome(scenario="b", reward=None, success=None)))
    >>> e.reward, e.success, e.n, e.missing
    (1.0, 1.0, 1, 1)
    """

    split: str
    label: Label
    step: int
    """The training step after which it was made."""
    version: str = ""
    """The weights that answered, as ``name@step``."""
    outcomes: tuple[Outcome, ...]
    seconds: float

    @property
    def rewards(self) -> list[float]:
        """The scores that are there."""
        return [outcome.reward for outcome in self.outcomes if outcome.reward is not None]

    @property
    def successes(self) -> list[bool] | None:
        """Success of each scored outcome; None unless the reward told it for all of them."""
        told = [outcome.success for outcome in self.outcomes if outcome.reward is not None]
        known = [value for value in told if value is not None]
        return known if told and len(known) == len(told) else None

    @property
    def n(self) -> int:
        """Scored scenarios."""
        return len(self.rewards)

    @property
    def missing(self) -> int:
        """Scenarios without a score."""
        return len(self.outcomes) - self.n

    @property
    def reward(self) -> float | None:
        """Mean reward; None if nothing was scored."""
        rewards = self.rewards
        return sum(rewards) / len(rewards) if rewards else None

    @property
    def success(self) -> float | None:
        """Success rate; None where the reward does not tell."""
        successes = self.successes
        return sum(successes) / len(successes) if successes else None

    @property
    def measure(self) -> Literal["success", "reward"]:
        """What ``ci95`` and ``figure`` speak of: success where it is known, else the mean reward."""
        return "reward" if self.successes is None else "success"

    @property
    def figure(self) -> float | None:
        """The number to compare: success rate or mean reward."""
        return self.success if self.measure == "success" else self.reward

    @property
    def ci95(self) -> Interval | None:
        """95 % interval of ``figure``."""
        successes = self.successes
        return bootstrap_mean(self.rewards) if successes is None else wilson(sum(successes), len(successes))

    @property
    def method(self) -> str:
        """Of ``ci95``."""
        return WILSON if self.measure == "success" else BOOTSTRAP

    @property
    def score(self) -> tuple[float, float]:
        """For choosing the best: success first, then mean reward; nothing scored comes last."""
        low = float("-inf")
        return (self.success if self.success is not None else low, self.reward if self.reward is not None else low)

    def row(self) -> dict[str, Any]:
        """The values of an ``eval`` row of metrics.jsonl."""
        return {
            "split": self.split,
            "label": self.label,
            "version": self.version,
            **self.to_summary(),
            PARTS: mean_parts([outcome.parts for outcome in self.outcomes if outcome.reward is not None]),
            "seconds": round(self.seconds, 3),
        }

    def to_summary(self) -> dict[str, Any]:
        """What summary.json says of it."""
        return {
            "reward": self.reward,
            "success": self.success,
            "n": self.n,
            "missing": self.missing,
            "ci95": None if self.ci95 is None else list(self.ci95),
            "measure": self.measure,
            "method": self.method,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """The paired difference of two evaluations of one split."""

    measure: Literal["success", "reward"]
    difference: float | None
    """After minus before, over the pairs; None without any."""
    ci95: Interval | None
    n: int
    """Scenarios scored both times."""
    method: str

    def to_summary(self) -> dict[str, Any]:
        """What summary.json says of it."""
        return {**asdict(self), "ci95": None if self.ci95 is None else list(self.ci95)}


def gain(before: Evaluation, after: Evaluation) -> Gain:
    """After minus before over the scenarios that both have scored: success where it is known both times, else reward."""
    first = {outcome.scenario: outcome for outcome in before.outcomes if outcome.reward is not None}
    pairs = [(first[o.scenario], o) for o in after.outcomes if o.reward is not None and o.scenario in first]
    told = [(b.success, a.success) for b, a in pairs if b.success is not None and a.success is not None]
    if pairs and len(told) == len(pairs):
        difference = sum(int(a) - int(b) for b, a in told) / len(told)
        interval = newcombe_paired([b for b, _ in told], [a for _, a in told])
        return Gain(measure="success", difference=difference, ci95=interval, n=len(told), method=NEWCOMBE)
    differences = [a.reward - b.reward for b, a in pairs if a.reward is not None and b.reward is not None]
    mean = sum(differences) / len(differences) if differences else None
    interval = bootstrap_mean(differences)
    return Gain(measure="reward", difference=mean, ci95=interval, n=len(differences), method=f"paired-{BOOTSTRAP}")


async def evaluate(
    agent: Agent,
    scenarios: Sequence[Scenario],
    policy: Policy,
    *,
    reward: RewardLike | None,
    concurrency: int = 32,
    limits: Limits | None = None,
    seed: int = 0,
    step: int = 0,
    on_rollout: Callable[[Trajectory], None] | None = None,
) -> list[Trajectory]:
    """One scored rollout per scenario, in the order of ``scenarios``. A failed one has no score."""
    groups = await gather(
        agent,
        scenarios,
        policy,
        reward=reward,
        group_size=1,
        concurrency=concurrency,
        limits=limits or Limits(),
        seed=seed,
        step=step,
        evaluating=True,
        on_rollout=on_rollout,
    )
    return [trajectory for group in groups for trajectory in group]


def outcomes_of(trajectories: Iterable[Trajectory]) -> tuple[Outcome, ...]:
    """What an evaluation keeps of its rollouts."""
    return tuple(
        Outcome(
            scenario=trajectory.scenario.id,
            reward=trajectory.reward,
            success=trajectory.success,
            parts=dict(trajectory.reward_parts),
            reason=trajectory.reward_reason or trajectory.error or "",
            stop_reason=trajectory.stop_reason,
            sampled_tokens=trajectory.sampled_tokens,
        )
        for trajectory in trajectories
    )
