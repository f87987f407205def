"""Blocks of code whose model calls become a trajectory, without an agent."""

from __future__ import annotations

import asyncio

import pytest

import art_core as art
from art_core.rollout.current import current

from .doubles import USER, BytesPolicy


async def test_a_block_of_async_code_is_a_trajectory():
    run = art.capture(BytesPolicy("hi"), scenario=art.Scenario("s", "q"))
    async with run as trajectory:
        await run.session.chat([USER])
        assert current() is run.session
    assert current() is None
    assert [turn.reply.text for turn in trajectory.turns] == ["hi"]
    assert (trajectory.stop_reason, trajectory.scenario.id, trajectory.error) == ("finished", "s", None)
    assert trajectory.seconds > 0


async def test_a_sync_with_in_async_code_runs_on_its_loop():
    run = art.capture(BytesPolicy("hi"))
    with run as trajectory:
        await run.session.openai.chat.completions.create(model="m", messages=[USER])
    assert len(trajectory.turns) == 1


def test_a_block_of_sync_code_needs_no_loop():
    run = art.capture(BytesPolicy("hi"))
    with run as trajectory:
        run.session.openai_sync.chat.completions.create(model="m", messages=[USER])
        asyncio.run(run.session.chat([USER]))
    assert (len(trajectory.turns), trajectory.stop_reason) == (2, "finished")


def test_what_was_captured_before_an_exception_is_kept_and_it_goes_on():
    run = art.capture(BytesPolicy("hi"))

    def block():
        with run:
            run.session.openai_sync.chat.completions.create(model="m", messages=[USER])
            raise KeyError("city")

    with pytest.raises(KeyError):
        block()
    trajectory = run.session.trajectory
    assert len(trajectory.turns) == 1
    assert (trajectory.stop_reason, trajectory.error) == ("error", "agent: KeyError: 'city'")


def test_a_block_that_is_interrupted_is_cancelled():
    with pytest.raises(KeyboardInterrupt), art.capture(BytesPolicy()) as trajectory:
        raise KeyboardInterrupt
    assert (trajectory.stop_reason, trajectory.failed) == ("cancelled", True)


async def test_a_limit_is_raised_and_is_no_error():
    run = art.capture(BytesPolicy("hi"), limits=art.Limits(turns=1))

    async def block():
        async with run:
            await run.session.chat([USER])
            await run.session.chat([USER])

    with pytest.raises(art.LimitReached, match="the limit of 1 turns is reached"):
        await block()
    assert (run.session.trajectory.stop_reason, run.session.trajectory.error) == ("max_turns", None)


async def test_after_the_block_nothing_is_answered():
    run = art.capture(BytesPolicy("hi"))
    with run:
        pass
    with pytest.raises(art.LimitReached, match="the rollout is over: the block of capture has ended"):
        await run.session.chat([USER])


async def test_inside_a_rollout_it_is_refused_unless_nothing_is_captured():
    inner = []

    async def agent(scenario, session):
        with pytest.raises(
            art.InputError, match=r"inside rollout 's1-.*', whose turns the calls of this code are already"
        ):
            art.capture(BytesPolicy()).__enter__()
        run = art.capture(BytesPolicy("other"))
        with art.no_capture(), run as trajectory:
            await run.session.chat([USER])
        inner.append(trajectory)
        await session.chat([USER])

    trajectory = await art.rollout(agent, art.Scenario("s1", ""), BytesPolicy("hi"))
    assert [turn.reply.text for t in (*inner, trajectory) for turn in t.turns] == ["other", "hi"]


def test_a_capture_is_used_once_and_has_no_session_before():
    run = art.capture(BytesPolicy())
    with pytest.raises(art.InputError, match="there is no session before the block of capture begins"):
        _ = run.session
    with run:
        pass
    with pytest.raises(art.InputError, match="this capture was used already"), run:
        pass
