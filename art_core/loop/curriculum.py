"""The scenarios of each step by how much their groups have taught so far: those that always or never succeed come less often.

What a group of siblings teaches is the share of its pairs of scored siblings whose outcomes differ. The outcome is the
success, where the reward told it for every scored sibling, else the reward itself: then the spread within the group
counts, whatever success would mean. With two outcomes, k of n siblings passed, this is

    spread = k (n - k) / (n (n - 1) / 2)

an unbiased estimate of 2 p (1 - p) for a pass rate p: the learnability p (1 - p) by which Foster et al., Learning to
Reason at the Frontier of Learnability, arXiv 2502.12272, choose questions; compare the online difficulty filtering of
arXiv 2504.03380. A group without spread has advantages of 0 and teaches nothing.

A scenario's estimate e begins at 1/2, the spread of a pass rate of one half, and moves half of the way to the spread of
each new group of it (``RECENT``): the policy changes, and what was measured long ago counts for little. Its weight is

    w = FLOOR + (1 - FLOOR) min(1, 2 e)

which is 1 until it is known, and ``FLOOR`` at least. Scenarios then take turns in proportion to their weights, by stride
scheduling (Waldspurger and Weihl, 1995): each has a time at which it is due, the ones due first are drawn, and one that
was drawn is due again 1/w later. Departures: within its turn a scenario has the place that the plain schedule's seeded
epoch gives it, and one that cannot keep up with its weight, because it comes at most once a step, does not save up more
than two turns.

So, while nothing is known or everything teaches, the draw is that of ``splits.Schedule``; every scenario comes once
before any comes twice; and no scenario starves: with n of them, s a step, each comes again within (1/FLOOR + 2)(n - 1)/s
+ 1 steps, and its share is a quarter (``FLOOR``) of anyone else's at least.

The draw is a function of (scenarios, s, seed, the training rows so far): a training row holds what its groups taught,
so a resumed run draws the same, and replaying the rows costs time linear in their groups.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from art_core.errors import InputError
from art_core.scenario import Scenario
from art_core.trajectory.trajectory import TrajectoryGroup

from .splits import epoch_order

__all__ = ["FLOOR", "Curriculum", "group_record", "spread"]

FLOOR = 0.25
"""The least weight of a scenario, as a share of the most."""
RECENT = 0.5
"""The share of the newest group in a scenario's estimate."""
_UNKNOWN = 0.5
_BACKLOG = 2.0

Row = Mapping[str, Any]


@dataclass(slots=True)
class _Turn:
    """Where a scenario stands."""

    base: float = 0.0
    """The time at which its next turn begins."""
    visits: int = 0
    estimate: float = _UNKNOWN

    @property
    def weight(self) -> float:
        return FLOOR + (1 - FLOOR) * min(1.0, 2 * self.estimate)


class Curriculum:
    """Draws the scenarios of each step from what the training rows before say."""

    def __init__(self, scenarios: Sequence[Scenario], size: int, *, seed: int) -> None:
        """
        Raises:
            InputError: a step takes all scenarios, so that there is nothing to choose.
        """
        if len(scenarios) <= size:
            raise InputError(
                f"curriculum 'pass_rate' has nothing to choose where a step takes {size} of {len(scenarios)} training "
                "scenarios; give more, or set rollout.scenarios_per_step lower"
            )
        self._scenarios, self._size, self._seed = list(scenarios), size, seed
        self._index = {scenario.id: index for index, scenario in enumerate(scenarios)}
        self._turns = [_Turn() for _ in scenarios]
        self._places: list[list[float]] = []
        self._step = 0

    def batch(self, rows: Sequence[Row]) -> list[Scenario]:
        """The scenarios of the step after the last training row, those due first. ``rows`` only grow between calls."""
        for row in rows:
            if row["kind"] == "train" and row["step"] > self._step:
                self._take_in(row["curriculum"]["groups"])
                self._step = row["step"]
        chosen = heapq.nsmallest(self._size, range(len(self._turns)), key=self._due)
        return [self._scenarios[index] for index in chosen]

    def record(self, groups: Sequence[TrajectoryGroup]) -> dict[str, Any]:
        """What a training row says of its step: the ``groups``, how many scenarios had been ``seen`` before it, and how
        many of them came ``rarely``: less than half as often as one that teaches most."""
        seen = [turn for turn in self._turns if turn.visits]
        return {
            "groups": {group.scenario.id: group_record(group) for group in groups},
            "seen": len(seen),
            "rarely": sum(turn.weight < 0.5 for turn in seen),
        }

    def _take_in(self, groups: Mapping[str, Mapping[str, Any]]) -> None:
        drawn = [self._index[name] for name in groups]
        now = max(self._due(index) for index in drawn)
        for index, group in zip(drawn, groups.values(), strict=True):
            turn, value = self._turns[index], group["spread"]
            if value is not None:
                turn.estimate += RECENT * (value - turn.estimate)
            turn.base = max(turn.base, now - _BACKLOG) + 1 / turn.weight
            turn.visits += 1

    def _due(self, index: int) -> float:
        turn = self._turns[index]
        while len(self._places) <= turn.visits:
            order = epoch_order(self._scenarios, seed=self._seed, epoch=len(self._places))
            places = [0.0] * len(order)
            for place, one in enumerate(order):
                places[one] = place / len(order)
            self._places.append(places)
        return turn.base + self._places[turn.visits][index]


def group_record(group: TrajectoryGroup) -> dict[str, Any]:
    """How many siblings were ``scored``, how many of them ``passed`` (None where the reward did not tell it for all), and
    the ``spread`` of their outcomes."""
    scored = [one for one in group if one.reward is not None and not one.failed]
    told = [one.success for one in scored if one.success is not None]
    by_success = bool(scored) and len(told) == len(scored)
    return {
        "scored": len(scored),
        "passed": sum(told) if by_success else None,
        "spread": spread(told if by_success else [one.reward for one in scored]),
    }


def spread(outcomes: Sequence[Any]) -> float | None:
    """The share of pairs whose outcomes differ; None for fewer than two outcomes.

    >>> spread([True, False, False, False]), spread([0.2, 0.2]), spread([1.0])
    (0.5, 0.0, None)
    """
    count = len(outcomes)
    if count < 2:
        return None
    pairs = count * (count - 1)
    return (pairs - sum(n * (n - 1) for n in Counter(outcomes).values())) / pairs
