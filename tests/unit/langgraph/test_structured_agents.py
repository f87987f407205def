"""Agents that end with an object: both strategies of ``create_agent``, and the older ``create_react_agent``."""

from __future__ import annotations

import pytest
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langgraph.prebuilt import create_react_agent
from pydantic import BaseModel

from tests.unit.rollout.reading import said

from .graphs import assistant, get_time, production_model
from .providers import MODELS
from .running import asked, forks, run

pytestmark = pytest.mark.filterwarnings("ignore:create_react_agent has been moved")


class Time(BaseModel):
    """A time."""

    city: str
    hour: int


NOON = Time(city="Rome", hour=12)
JSON = '{"city": "Rome", "hour": 12}'
CALL = [("get_time", {"city": "Rome"})]
ANSWER = [("Time", {"city": "Rome", "hour": 12})]


def names(turn):
    return [tool.name for tool in turn.tools]


async def test_the_providers_strategy_asks_for_json():
    trajectory = await run(assistant(response_format=ProviderStrategy(Time)), [CALL, JSON])
    assert trajectory.error is None
    assert trajectory.output["structured_response"] == NOON
    assert said(trajectory)[1] == JSON
    asked_for = trajectory.turns[0].metadata["overridden"]["response_format"]
    assert asked_for["json_schema"]["name"] == "Time"
    assert len(trajectory.samples()) == 1


async def test_the_tool_strategy_offers_the_object_as_a_tool():
    trajectory = await run(assistant(response_format=ToolStrategy(Time)), [CALL, ANSWER])
    assert trajectory.output["structured_response"] == NOON
    assert names(trajectory.turns[0]) == ["get_time", "broken", "Time"]
    assert trajectory.turns[0].metadata["overridden"] == {"tool_choice": "required"}
    assert len(trajectory.samples()) == 1


async def test_an_object_that_is_wrong_is_told_and_made_again():
    wrong = [("Time", {"city": "Rome", "hour": "noon"})]
    trajectory = await run(assistant(response_format=ToolStrategy(Time)), [wrong, ANSWER])
    assert trajectory.output["structured_response"] == NOON
    assert "Failed to parse structured output for tool 'Time'" in asked(trajectory)[1][-1][1]
    assert forks(trajectory) == [None, None]
    assert len(trajectory.samples()) == 1


async def test_json_that_is_wrong_ends_the_rollout_and_its_turns_are_kept():
    trajectory = await run(assistant(response_format=ProviderStrategy(Time)), [CALL, "At noon."])
    assert trajectory.stop_reason == "error"
    assert trajectory.error.startswith("agent: ")
    assert said(trajectory)[1] == "At noon."


@pytest.mark.parametrize("provider", MODELS)
async def test_without_a_strategy_it_is_that_of_the_production_model(provider):
    from langchain.agents import create_agent

    graph = create_agent(MODELS[provider](), [get_time], response_format=Time)
    reply = [ANSWER if "Time" in {tool.name for tool in await _tools(graph)} else JSON]
    trajectory = await run(graph, reply)
    assert trajectory.error is None
    assert trajectory.output["structured_response"] == NOON


async def _tools(graph):
    return (await run(graph, lambda messages, tools: ANSWER if len(tools) > 1 else JSON)).turns[0].tools


async def test_the_older_agent_with_tools_is_one_row():
    trajectory = await run(create_react_agent(production_model(), [get_time]), [CALL, "It is noon."])
    assert asked(trajectory)[1][-1] == ("tool", "It is noon in Rome.")
    assert said(trajectory)[1] == "It is noon."
    assert len(trajectory.samples()) == 1


async def test_the_older_agents_object_is_a_call_of_its_own():
    graph = create_react_agent(production_model(), [get_time], prompt="Be brief.", response_format=Time)
    trajectory = await run(graph, [CALL, "It is noon.", JSON])
    assert trajectory.output["structured_response"] == NOON
    assert said(trajectory)[2] == JSON
    assert [turn.metadata["call"]["node"] for turn in trajectory.turns] == [
        "agent",
        "agent",
        "generate_structured_response",
    ]
    assert forks(trajectory) == [None, None, "a new conversation"]


async def test_the_older_agent_may_end_at_once():
    trajectory = await run(create_react_agent(production_model(), [], response_format=Time), ["Noon.", JSON])
    assert trajectory.output["structured_response"] == NOON
    assert len(trajectory.turns) == 2
