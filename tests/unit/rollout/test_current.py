"""Which rollout running code belongs to: what inherits the binding, and what only descends from it."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import art_core as art
from art_core.rollout.current import ancestor, bind, current, no_capture, watch
from art_core.rollout.session import Session
from tests.threads import in_a_pool, in_a_thread


@pytest.fixture(autouse=True)
def nobody_watches():
    """Other tests of this process may have installed something that does."""
    names = (f"art_integrations.{name}.hook" for name in ("langgraph", "openai_sdk"))
    hooks = [hook for name in names if (hook := sys.modules.get(name)) is not None and hook.installed()]
    for hook in hooks:
        hook.uninstall()
    yield
    for hook in hooks:
        hook.install()


@pytest.fixture
def session():
    return Session(art.ScriptedPolicy(["x"]), art.Scenario("s", ""), rollout_id="r")


def seen_by(run):
    """What ``current`` and ``ancestor`` say in a thread that ``run`` starts."""
    found = []
    run(lambda: found.append((current(), ancestor())))
    return found[0]


def test_outside_there_is_none():
    assert (current(), ancestor()) == (None, None)


def test_inside_it_is_the_session_and_afterwards_none(session):
    with bind(session):
        assert current() is session
    assert current() is None


async def test_tasks_and_to_thread_inherit_it(session):
    async def seen():
        return current()

    with bind(session):
        task = asyncio.create_task(seen())
        assert await asyncio.to_thread(current) is session
    assert await task is session


@pytest.mark.parametrize("run", [in_a_thread, in_a_pool])
def test_a_raw_thread_only_descends_from_it_and_only_while_somebody_watches(session, run):
    with bind(session):
        assert seen_by(run) == (None, None)
        end = watch()
        assert seen_by(run) == (None, session)
        assert seen_by(lambda work: in_a_thread(lambda: run(work))) == (None, session)
        end()
        assert seen_by(run) == (None, None)


def test_a_raw_thread_with_a_copied_context_is_inside(session):
    end = watch()
    with bind(session):
        context = contextvars.copy_context()
        assert seen_by(lambda work: in_a_thread(lambda: context.run(work))) == (session, None)
    end()


def test_a_worker_of_a_pool_descends_from_what_it_works_for(session):
    end = watch()
    with ThreadPoolExecutor(1) as workers:
        with bind(session):
            assert workers.submit(ancestor).result() is session
        assert workers.submit(ancestor).result() is None
    end()


def test_no_capture_hides_it_from_everything_below(session):
    end = watch()
    with bind(session), no_capture():
        assert (current(), ancestor()) == (None, None)
        assert seen_by(in_a_thread) == (None, None)
    end()


def test_the_last_watcher_puts_the_threads_back():
    before = threading.Thread.start, ThreadPoolExecutor.submit
    first, second = watch(), watch()
    first()
    first()
    assert threading.Thread.start is not before[0]
    second()
    assert (threading.Thread.start, ThreadPoolExecutor.submit) == before
