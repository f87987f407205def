"""Graphs that the user drives."""

from __future__ import annotations

import pytest

import art_core as art
from art_integrations.langgraph import capture
from tests.unit.rollout.reading import said

from .graphs import assistant, chatbot

ASKED = {"messages": [{"role": "user", "content": "What time is it?"}]}


def test_a_graph_that_is_invoked_synchronously():
    with capture(art.ScriptedPolicy(["Noon."])) as trajectory:
        state = chatbot().invoke(ASKED)
    assert state["messages"][-1].content == "Noon."
    assert said(trajectory) == ["Noon."]
    assert trajectory.turns[0].metadata["call"]["node"] == "answer"


async def test_a_graph_that_is_invoked_asynchronously():
    with capture(art.ScriptedPolicy([[("get_time", {"city": "Rome"})], "Noon."])) as trajectory:
        state = await assistant().ainvoke(ASKED)
    assert state["messages"][-1].content == "Noon."
    (sample,) = trajectory.samples()
    assert sample.mask.sum() == sum(len(turn.completion_ids) for turn in trajectory.turns)


def test_a_graph_that_fails_keeps_its_turns():
    with pytest.raises(RuntimeError), capture(art.ScriptedPolicy([[("broken", {"city": "Atlantis"})]])) as trajectory:
        assistant().invoke(ASKED)
    assert (len(trajectory.turns), trajectory.error) == (1, "agent: RuntimeError: no such place: Atlantis")
