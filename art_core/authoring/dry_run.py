"""Whether scenarios can be answered at all: a reference model does each once, with the real tools, and is graded.

    scenario ─► one rollout by the reference, kept ─► graded by itself ─► good enough: answerable, else refused with the reason

A rollout that failed, or whose grade is missing, says nothing about its scenario: that one stays untried. The rollouts are a collected
directory, so what the reference did well can be learnt from (``warm_start.run``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from art_core.inference.protocol import Policy
from art_core.loop.collect import acollect, collected, open_collection
from art_core.loop.ending import release
from art_core.loop.preflight import examine
from art_core.messages import canonical_json
from art_core.rewards.protocol import RewardLike
from art_core.rollout.limits import Limits
from art_core.rollout.protocol import Agent
from art_core.scenario import Scenario
from art_core.trajectory.trajectory import Trajectory

from .shelf import TRIED

__all__ = ["ENOUGH", "DryRun", "Tried"]

ENOUGH = 0.5
"""The grade from which on a scenario counts as done."""


@dataclass(slots=True, kw_only=True)
class Tried:
    """What became of each scenario, by its id."""

    answerable: dict[str, Scenario] = field(default_factory=dict)
    """With ``metadata["dry_run"]``: the model, its score and its calls; and with ``metadata["content"]``, from those."""
    refused: dict[str, str] = field(default_factory=dict)
    untried: dict[str, str] = field(default_factory=dict)
    """Why nothing can be said."""


@dataclass(slots=True, kw_only=True)
class DryRun:
    """How scenarios are tried."""

    agent: Agent
    policy: Policy
    """The reference model."""
    model: str
    """Its name."""
    grader: RewardLike
    """Its success decides; a score without one is enough from ``ENOUGH`` on."""
    directory: Path
    """Where the rollouts are kept."""
    record: Mapping[str, Any]
    """How agent and grader were made, for ``run.toml``."""
    turns: int = 16
    """Model calls of one rollout at most."""
    concurrency: int = 8
    note: Callable[[str], None] = lambda text: None

    async def of(
        self, scenarios: Sequence[Scenario], *, on_rollout: Callable[[Trajectory], None] | None = None
    ) -> Tried:
        """Try each of ``scenarios``; rollouts that the directory holds are not made again.

        Raises:
            InputError: the directory is of something else, or the agent cannot be run.
        """
        await examine(self.agent, scenarios, self.note)
        collection = open_collection(self.directory, {**self.record, "model": self.model, "seed": 0})
        await acollect(
            self.agent,
            scenarios,
            self.policy,
            collection,
            reward=self.grader,
            concurrency=self.concurrency,
            limits=Limits(turns=self.turns),
            on_rollout=on_rollout,
        )
        rollouts = {trajectory.scenario.id: trajectory for trajectory in collected(self.directory)}
        tried = Tried()
        for scenario in scenarios:
            self._sort(scenario, rollouts.get(scenario.id), tried)
        return tried

    async def close(self) -> None:
        """Close what agent, model and grader hold open."""
        await release(self.agent, self.policy, self.grader)

    def _sort(self, scenario: Scenario, rollout: Trajectory | None, tried: Tried) -> None:
        if rollout is None or rollout.failed:
            tried.untried[scenario.id] = f"the rollout failed: {rollout.error if rollout else 'it was not made'}"
        elif rollout.reward is None:
            tried.untried[scenario.id] = f"it has no grade: {rollout.reward_reason}"
        elif _passes(rollout):
            tried.answerable[scenario.id] = self._marked(scenario, rollout)
        else:
            tried.refused[scenario.id] = f"{self.model} came to {rollout.reward:.2f} only: {rollout.reward_reason}"

    def _marked(self, scenario: Scenario, rollout: Trajectory) -> Scenario:
        calls = [{"name": event.name, "arguments": event.arguments} for event in rollout.events if event.error is None]
        told = {"model": self.model, "score": rollout.reward, "calls": calls}
        metadata = {**scenario.metadata, TRIED: told}
        if calls:
            metadata["content"] = [f"calls {hashlib.sha256(canonical_json(calls).encode()).hexdigest()[:16]}"]
        return replace(scenario, metadata=metadata)


def _passes(rollout: Trajectory) -> bool:
    if rollout.success is not None:
        return rollout.success
    return (rollout.reward or 0.0) >= ENOUGH
