"""Programs that the user drives."""

from __future__ import annotations

import asyncio

import pytest

import art_core as art
from art_integrations.openai_sdk import capture
from tests.unit.rollout.reading import said

from . import programs


@pytest.mark.parametrize("program", [programs.sync_program, programs.sync_stream, programs.with_copied_context])
def test_a_sync_program(program):
    with capture(art.ScriptedPolicy(["Noon."])) as trajectory:
        assert program("What time is it?") == "Noon."
    assert said(trajectory) == ["Noon."]


def test_a_program_that_runs_a_loop_of_its_own():
    with capture(art.ScriptedPolicy(["Noon."])) as trajectory:
        assert asyncio.run(programs.async_program("What time is it?")) == "Noon."
    assert said(trajectory) == ["Noon."]


async def test_an_async_program():
    async with capture(art.ScriptedPolicy(["Noon."])) as trajectory:
        assert await programs.async_stream("What time is it?") == "Noon."
    assert said(trajectory) == ["Noon."]


def test_two_blocks_do_not_mix():
    with capture(art.ScriptedPolicy(["one"])) as first:
        programs.sync_program("?")
    with capture(art.ScriptedPolicy(["two"])) as second:
        programs.sync_program("?")
    assert (said(first), said(second)) == (["one"], ["two"])
