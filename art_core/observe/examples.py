"""Which rollouts a report shows, and how: scenarios before and after side by side, and siblings of one training group.

The choice is by rule and stated in the report: pairs cover what improved, what got worse and what did not change; of a
training group its best and its worst rollout are shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from art_core.messages import ToolSpec
from art_core.scenario import Scenario
from art_core.trajectory.trajectory import Trajectory

from .run_files import RunFiles
from .tokens import Pieces, TurnView, turn_views

__all__ = ["Examples", "Group", "Pair", "Prompt", "RolloutView", "choose", "views"]

MAX_PAIRS = 4
MAX_TOKENS = 1200
"""Sampled tokens shown of one rollout."""
MAX_CONTEXT = 24_000
"""Characters shown of one context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutView:
    """One rollout as it is shown."""

    trajectory: Trajectory
    turns: list[TurnView]
    siblings: int = 0
    """How many of its group there are; 0 outside of a group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One held-out scenario before and after training."""

    scenario: Scenario
    change: str
    """``improved``, ``worse`` or ``unchanged``."""
    before: Trajectory
    after: Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Siblings of one training scenario."""

    step: int
    siblings: list[Trajectory]
    """Best first; unscored ones last."""

    @property
    def shown(self) -> list[Trajectory]:
        """The best and the worst scored sibling."""
        scored = [t for t in self.siblings if t.reward is not None] or self.siblings
        return scored[:1] + scored[1:][-1:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What the model was given before it wrote its first token."""

    ids: tuple[int, ...]
    tools: tuple[ToolSpec, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    """Everything chosen of a run."""

    pairs: list[Pair]
    counts: dict[str, int]
    """Scenarios by change, over all that were evaluated twice."""
    groups: list[Group]
    prompt: Prompt | None

    def sequences(self) -> Iterable[Sequence[int]]:
        """All id sequences that are shown."""
        for trajectory in self.trajectories():
            for turn in trajectory.graph:
                yield turn.context_ids
                yield turn.completion_ids
        if self.prompt:
            yield self.prompt.ids

    def trajectories(self) -> Iterable[Trajectory]:
        """All rollouts that are shown."""
        for pair in self.pairs:
            yield from (pair.before, pair.after)
        for group in self.groups:
            yield from group.shown


def choose(run: RunFiles) -> Examples:
    """Choose what a report of ``run`` shows."""
    everything = list(_pairs(run))
    counts = {
        change: sum(pair.change == change for pair in everything) for change in ("improved", "unchanged", "worse")
    }
    groups = [group for step, found in run.steps.items() if (group := _group(step, found))]
    return Examples(pairs=_selection(everything), counts=counts, groups=groups[-1:], prompt=_prompt(run))


def views(trajectory: Trajectory, pieces: Pieces | None, *, siblings: int = 0) -> RolloutView:
    """A rollout ready to be shown."""
    turns = turn_views(trajectory, pieces or Pieces(), max_tokens=MAX_TOKENS, max_context=MAX_CONTEXT)
    return RolloutView(trajectory=trajectory, turns=turns, siblings=siblings)


def as_text(value: Any) -> str:
    """A scenario's input, an expected value or the arguments of a call for reading."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _pairs(run: RunFiles) -> Iterable[Pair]:
    after = {trajectory.scenario.id: trajectory for trajectory in reversed(run.after)}
    seen: set[str] = set()
    for first in run.before:
        name = first.scenario.id
        if name not in after or name in seen:
            continue
        seen.add(name)
        one, two = _level(first), _level(after[name])
        change = "improved" if two > one else "worse" if two < one else "unchanged"
        yield Pair(scenario=first.scenario, change=change, before=first, after=after[name])


def _level(trajectory: Trajectory) -> tuple[bool, float]:
    reward = trajectory.reward if trajectory.reward is not None else float("-inf")
    return trajectory.success is True, reward


def _selection(pairs: list[Pair]) -> list[Pair]:
    """Two that improved, one that got worse and one unchanged, filled up from what there is."""
    by_change = {change: [p for p in pairs if p.change == change] for change in ("improved", "worse", "unchanged")}
    chosen = by_change["improved"][:2] + by_change["worse"][:1] + by_change["unchanged"][:1]
    rest = [pair for found in by_change.values() for pair in found if pair not in chosen]
    return (chosen + rest)[:MAX_PAIRS]


def _group(step: int, found: list[Trajectory]) -> Group | None:
    """The group of a step whose rewards differ most."""
    groups: dict[str, list[Trajectory]] = {}
    for trajectory in found:
        groups.setdefault(trajectory.group_id or trajectory.scenario.id, []).append(trajectory)
    if not groups:
        return None
    best = max(groups.values(), key=lambda siblings: _spread([t.reward for t in siblings]))
    order = sorted(best, key=lambda t: float("inf") if t.reward is None else -t.reward)
    return Group(step=step, siblings=order)


def _spread(rewards: Sequence[float | None]) -> float:
    known = [reward for reward in rewards if reward is not None]
    return max(known) - min(known) if known else -1.0


def _prompt(run: RunFiles) -> Prompt | None:
    for trajectory in (*run.before, *run.after, *(t for found in run.steps.values() for t in found)):
        for turn in trajectory.graph:
            return Prompt(ids=turn.context_ids, tools=turn.tools)
    return None
