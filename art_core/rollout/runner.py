"""Running one rollout: open, call the agent, score, close; every exit has a stop reason and keeps what was captured."""

from __future__ import annotations

import asyncio
import math
import uuid
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from art_core import workers
from art_core.errors import InputError, LimitReached, describe
from art_core.inference.protocol import Policy
from art_core.rewards.protocol import GroupReward, RewardFunction
from art_core.rewards.score import score_trajectory
from art_core.scenario import Scenario
from art_core.trajectory.superseded import client_retries
from art_core.trajectory.trajectory import Trajectory

from .current import bind
from .failures import attribute, conclude, find_limit
from .limits import Limits
from .protocol import Agent, AgentWithEnvironment
from .session import Session

__all__ = ["rollout"]

_NODE_THREADS = 64
_abandoned: set[asyncio.Task[Any]] = set()
"""Agents that went on running after they were cancelled; held so that their late results can be counted."""


async def rollout(
    agent: Agent,
    scenario: Scenario,
    policy: Policy,
    *,
    reward: RewardFunction | None = None,
    limits: Limits | None = None,
    rollout_id: str | None = None,
    group_id: str = "",
    rng_parts: tuple[Any, ...] = (),
    evaluating: bool = False,
    on_rollout: Callable[[Trajectory], None] | None = None,
) -> Trajectory:
    """Run ``agent`` once on ``scenario`` and score it.

    An agent that fails is recorded (``stop_reason`` ``error``, one attributed line in ``error``), keeps its turns and is
    not scored. Reaching a limit is not a failure: the trajectory is scored as it stands. An async agent is cancelled
    at the time limit; a sync one cannot be stopped, so its later session calls raise ``LimitReached`` and its result is
    ignored and counted in ``metrics["late_results"]``.

    ``on_rollout`` is called once with the finished trajectory, also when this call is cancelled. ``rng_parts`` is the key
    of the sampling draws; without it the rollout's id is.

    Raises:
        InputError: ``reward`` is a group reward, or ``agent`` cannot be called.
        CancelledError: the caller cancelled; the environment was closed first.
    """
    if not callable(agent):
        raise InputError(f"agent {agent!r} cannot be called; it must be a function of (scenario, session)")
    if isinstance(reward, GroupReward):
        raise InputError(f"{type(reward).__name__} scores groups; give it to gather, which runs siblings")
    workers.size_executor(_NODE_THREADS)
    rollout_id = rollout_id or f"{scenario.id}-{uuid.uuid4().hex[:12]}"
    session = Session(
        policy,
        scenario,
        rollout_id=rollout_id,
        group_id=group_id,
        limits=limits,
        rng_parts=rng_parts,
        evaluating=evaluating,
    )
    trajectory = session.trajectory
    trajectory.metadata["rng_parts"] = list(session.rng_parts)
    try:
        await _run(agent, session, reward)
    except BaseException:
        trajectory.stop_reason = "cancelled"
        trajectory.unscore("not scored: the rollout was cancelled")
        raise
    finally:
        session.finished = True
        trajectory.seconds = session.elapsed()
        if on_rollout is not None:
            on_rollout(trajectory)
    return trajectory


async def _run(agent: Agent, session: Session, reward: RewardFunction | None) -> None:
    environment = await _open(agent, session)
    try:
        if session.trajectory.stop_reason is None:
            await _call_agent(agent, session)
        session.trajectory.superseded |= client_retries(session.trajectory.graph)
        await _score(session.trajectory, reward, session.limits)
    finally:
        await session.crossing.close(LimitReached("finished", "the agent has returned"))
        if environment is not None:
            await _close(environment, session)


async def _open(agent: Agent, session: Session) -> AbstractAsyncContextManager[Any] | None:
    """Enter the agent's environment in the rollout's own task, where it will be left too."""
    if not isinstance(agent, AgentWithEnvironment):
        return None
    clock = asyncio.timeout(_left(session))
    try:
        async with clock:
            environment: AbstractAsyncContextManager[Any] = agent.open(session.scenario, session)
            session.trajectory.environment = await environment.__aenter__()
    except Exception as error:  # noqa: BLE001 - foreign code: its failure is this rollout's, not the run's
        if clock.expired():
            session.count("time_limits")
            _fail(session, f"tool: the environment did not open within {session.limits.seconds:g} s")
        else:
            _fail(session, attribute(error))
        return None
    return environment


async def _call_agent(agent: Agent, session: Session) -> None:
    name = f"agent of rollout {session.rollout_id}"
    call = workers.call(agent, session.scenario, session, name=name, on_late=lambda outcome: _late(outcome, session))
    with bind(session):
        task = asyncio.create_task(call, name=name)
    try:
        done, _ = await asyncio.wait({task}, timeout=_left(session))
    except asyncio.CancelledError:
        await session.crossing.close(LimitReached("cancelled", "the rollout was cancelled"))
        await _stop(task, session)
        raise
    if not done:
        limit = LimitReached("timeout", f"the limit of {session.limits.seconds:g} seconds is reached")
        session.limit = session.limit or limit
        await session.crossing.close(limit)
        await _stop(task, session)
        session.trajectory.stop_reason = "timeout"
        return
    _conclude(task, session)


def _conclude(task: asyncio.Task[Any], session: Session) -> None:
    """Turn the end of the agent's task into output, stop reason and error."""
    if task.cancelled():
        _fail(session, "agent: CancelledError: the agent cancelled itself")
        return
    error = task.exception()
    if error is None:
        session.trajectory.output = task.result()
    conclude(session, error)


async def _stop(task: asyncio.Task[Any], session: Session) -> None:
    """Cancel the agent and give it ``close_seconds`` to end; one that goes on is let go and its result ignored."""
    task.cancel()
    await asyncio.wait({task}, timeout=_bound(session.limits.close_seconds))

    def ended(late: asyncio.Task[Any]) -> None:
        _abandoned.discard(late)
        if not late.cancelled():
            _late(late.exception() or late.result(), session)

    if task.done():
        ended(task)
        return
    session.count("abandoned_agents")
    _abandoned.add(task)
    task.add_done_callback(ended)


def _late(outcome: Any, session: Session) -> None:
    """Count what came after the end; the echo of the limit itself is not a result."""
    if not (isinstance(outcome, BaseException) and find_limit(outcome)):
        session.count("late_results")


async def _score(trajectory: Trajectory, reward: RewardFunction | None, limits: Limits) -> None:
    if trajectory.failed:
        trajectory.unscore(f"not scored: the rollout failed ({trajectory.error})")
    elif reward is not None:
        await score_trajectory(reward, trajectory, seconds=limits.reward_seconds)


async def _close(environment: AbstractAsyncContextManager[Any], session: Session) -> None:
    trajectory = session.trajectory
    trajectory.environment = None
    clock = asyncio.timeout(_bound(session.limits.close_seconds))
    try:
        async with clock:
            await environment.__aexit__(None, None, None)
    except Exception as error:  # noqa: BLE001 - the rollout is over and counts; the failure to close is recorded
        session.count("close_errors")
        trajectory.metadata["close_error"] = (
            f"not closed within {session.limits.close_seconds:g} s" if clock.expired() else describe(error)
        )


def _fail(session: Session, error: str) -> None:
    session.trajectory.stop_reason = "error"
    session.trajectory.error = error


def _left(session: Session) -> float | None:
    return _bound(max(0.0, session.limits.seconds - session.elapsed()))


def _bound(seconds: float) -> float | None:
    return None if math.isinf(seconds) else seconds
