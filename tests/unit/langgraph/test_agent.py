"""A graph's model calls are turns of its rollout, token by token, and nothing of the graph was touched."""

from __future__ import annotations

import pytest

import art_core as art
from art_core.errors import InputError
from art_integrations.langgraph import LangGraphAgent

from .graphs import assistant, chatbot
from .running import check_tokens


async def run(graph, replies, scenario="What time is it in Rome?", **options):
    policy = art.ScriptedPolicy(replies)
    trajectory = await art.rollout(
        LangGraphAgent(graph, **options), art.Scenario("s", scenario), policy, limits=art.Limits(seconds=20)
    )
    check_tokens(trajectory)
    return policy, trajectory


def text(policy, ids):
    return policy.renderer.text(ids)


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_node_that_calls_its_model_makes_a_turn(is_async):
    policy, trajectory = await run(chatbot(is_async=is_async), ["Noon."])
    (turn,) = trajectory.turns
    assert trajectory.error is None
    assert text(policy, turn.completion_ids[:-1]) == "Noon."
    assert trajectory.output["messages"][-1].content == "Noon."
    assert trajectory.output["messages"][-1].id == turn.id


async def test_a_turn_knows_who_called():
    _, trajectory = await run(chatbot(), ["Noon."])
    call = trajectory.turns[0].metadata["call"]
    assert call["model"] == "gpt-5-mini"
    assert call["provider"] == "ChatOpenAI"
    assert (call["node"], call["step"], call["attempt"]) == ("answer", 1, 1)
    assert call["path"] == ["__pregel_pull", "answer"]


async def test_an_agent_with_tools_is_one_row_of_exactly_the_sampled_tokens():
    _, trajectory = await run(assistant(), [[("get_time", {"city": "Rome"})], "It is noon."])
    (sample,) = trajectory.samples()
    sampled = [token for turn in trajectory.turns for token in turn.completion_ids]
    assert sample.token_ids[sample.mask].tolist() == sampled
    assert [message.role for message in trajectory.messages] == ["user", "assistant", "tool", "assistant"]
    assert trajectory.messages[2].text == "It is noon in Rome."
    assert [tool.name for tool in trajectory.turns[0].tools] == ["get_time", "broken"]


async def test_what_was_captured_before_a_failure_is_kept():
    _, trajectory = await run(assistant(), [[("broken", {"city": "Atlantis"})], "never"])
    assert len(trajectory.turns) == 1
    assert trajectory.stop_reason == "error"
    assert trajectory.error == "agent: RuntimeError: no such place: Atlantis"


async def test_steps_without_end_are_a_limit():
    policy = art.ScriptedPolicy(lambda messages, tools: [("get_time", {"city": "Rome"})])
    agent = LangGraphAgent(assistant(), steps=5)
    trajectory = await art.rollout(agent, art.Scenario("s", "Time?"), policy)
    assert trajectory.stop_reason == "max_steps"
    assert len(trajectory.turns) == 3


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (3, "3 is a int, not a compiled LangGraph graph"),
        ("tests.unit.langgraph.graphs", "is not of the form module:name"),
        ("no_such_module:graph", "there is no module 'no_such_module' here or among the installed packages"),
        ("tests.unit.langgraph.graphs:graph", "module 'tests.unit.langgraph.graphs' has no 'graph'"),
    ],
)
def test_what_is_no_graph_is_told(graph, message):
    with pytest.raises(InputError, match=message):
        LangGraphAgent(graph)
