"""Asking a reward for its verdict. A verdict that cannot be used is missing, with the reason: never 0, never a crash."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine, Sequence
from numbers import Real
from typing import Any

from art_core import workers
from art_core.errors import BoundaryError, JudgeError, RewardError, boundary, describe
from art_core.trajectory.trajectory import Reward, Trajectory, TrajectoryGroup

from .protocol import GroupReward, RewardFunction

__all__ = ["score_group", "score_trajectory"]


async def score_trajectory(reward: RewardFunction, trajectory: Trajectory, *, seconds: float = math.inf) -> None:
    """Score one trajectory; where that fails, or takes more than ``seconds``, mark it unscored with the reason.

    Time that ran out is also counted in ``metrics["time_limits"]``.
    """
    name = _name(reward)
    call = workers.call(reward, trajectory, trajectory.scenario, name=f"reward {name} of {trajectory.rollout_id}")
    try:
        value = await _bounded(call, name, seconds)
        _apply(trajectory, name, value if isinstance(value, Reward) else _read(name, value))
    except Exception as error:  # noqa: BLE001 - a reward is foreign code: its failure is a missing reward
        _missing(trajectory, name, error)


async def score_group(reward: GroupReward, group: TrajectoryGroup, *, seconds: float = math.inf) -> None:
    """Score the siblings that did not fail, relative to each other.

    Where the whole verdict cannot be used (it raised, took more than ``seconds`` or has another length) all of them are
    marked unscored with the reason. A sibling that failed keeps its own reason. Time that ran out is also counted in
    ``metrics["time_limits"]``.
    """
    siblings = [trajectory for trajectory in group if not trajectory.failed]
    if not siblings:
        return
    name = _name(reward)
    asked = TrajectoryGroup(
        scenario=group.scenario, trajectories=siblings, group_id=group.group_id, metadata=group.metadata
    )
    try:
        judgement = workers.call(reward.score_group, asked, name=f"reward {name} of group {group.group_id}")
        verdict = await _bounded(judgement, name, seconds)
        if not isinstance(verdict, Sequence) or len(verdict) != len(siblings):
            size = f"{len(verdict)} rewards" if isinstance(verdict, Sequence) else repr(verdict)
            raise RewardError(f"{name} returned {size} for {len(siblings)} rollouts")
    except Exception as error:  # noqa: BLE001 - a judge is foreign code: its failure is a missing reward
        for trajectory in siblings:
            _missing(trajectory, name, error)
        return
    for trajectory, item in zip(siblings, verdict, strict=True):
        try:
            _apply(trajectory, name, item)
        except RewardError as error:
            trajectory.unscore(_reason(name, error))


class _TimeUp(RewardError):
    """No answer within the time a reward has."""


def _missing(trajectory: Trajectory, name: str, error: Exception) -> None:
    trajectory.unscore(_reason(name, error))
    if isinstance(error, _TimeUp):
        trajectory.metrics["time_limits"] = trajectory.metrics.get("time_limits", 0) + 1


async def _bounded(verdict: Coroutine[Any, Any, Any], name: str, seconds: float) -> Any:
    try:
        async with asyncio.timeout(None if math.isinf(seconds) else seconds) as clock:
            return await verdict
    except TimeoutError as error:
        if clock.expired():
            raise _TimeUp(f"{name} gave no answer within {seconds:g} s") from error
        raise


def _read(name: str, value: Any) -> Reward:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise RewardError(f"{name} returned {value!r}, which is not a number")
    if not math.isfinite(value):
        raise RewardError(f"{name} returned {float(value)!r}, which is not finite")
    return Reward(float(value))


def _apply(trajectory: Trajectory, name: str, verdict: Any) -> None:
    if verdict is None:
        own = trajectory.reward_reason if trajectory.reward is None else ""
        trajectory.unscore(own or f"reward: {name} gave no score")
    elif not isinstance(verdict, Reward):
        raise RewardError(f"{name} returned {verdict!r}, which is not a Reward")
    else:
        with boundary(RewardError, f"{name} returned {verdict!r}"):
            trajectory.score(verdict)


def _reason(name: str, error: Exception) -> str:
    kind = "judge" if isinstance(error, JudgeError) else "reward"
    return f"{kind}: {describe(error)}" if isinstance(error, BoundaryError) else f"{kind}: {name}: {describe(error)}"


def _name(reward: Any) -> str:
    return str(getattr(reward, "__name__", None) or type(reward).__name__)
