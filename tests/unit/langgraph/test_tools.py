"""Whatever a model makes of its tools: what it wrote is trained, what came of it is context."""

from __future__ import annotations

import pytest
from langchain.agents.middleware import ToolRetryMiddleware, wrap_tool_call
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool

from tests.unit.rollout.reading import said

from .graphs import assistant, broken, create_agent, get_time, production_model
from .running import asked, forks, run


def call(name, arguments):
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


ROME, OSLO = call("get_time", '{"city": "Rome"}'), call("get_time", '{"city": "Oslo"}')


async def test_parallel_tool_calls_are_one_turn_and_their_results_the_next_context():
    trajectory = await run(assistant(), [f"{ROME}\n{OSLO}", "Noon in both."])
    assert said(trajectory) == [f"{ROME}\n{OSLO}", "Noon in both."]
    assert asked(trajectory)[1][2:] == [("tool", "It is noon in Rome."), ("tool", "It is noon in Oslo.")]
    calls, (one, other) = trajectory.turns[0].reply.tool_calls, trajectory.messages[2:4]
    assert [one.tool_call_id, other.tool_call_id] == [c.id for c in calls]
    assert forks(trajectory) == [None, None]
    assert len(trajectory.samples()) == 1


async def test_a_tool_that_does_not_exist_is_told_to_the_model():
    trajectory = await run(assistant(), [call("get_tide", '{"city": "Rome"}'), "Sorry."])
    assert said(trajectory)[1] == "Sorry."
    assert asked(trajectory)[1][-1][1].startswith("Error: get_tide is not a valid tool, try one of [get_time, broken].")
    assert len(trajectory.samples()) == 1


async def test_arguments_that_the_tool_does_not_take_are_told_to_the_model():
    trajectory = await run(assistant(), [call("get_time", '{"town": "Rome"}'), "Sorry."])
    assert asked(trajectory)[1][-1][1].startswith("Error invoking tool 'get_time' with kwargs {'town': 'Rome'}")
    assert len(trajectory.samples()) == 1


async def test_a_call_without_arguments_has_an_empty_object():
    @tool
    def now() -> str:
        """Tell the time."""
        return "It is noon."

    graph = create_agent(production_model(), [now])
    trajectory = await run(graph, ['<tool_call>\n{"name": "now", "arguments": ""}\n</tool_call>', "Noon."])
    assert trajectory.output["messages"][1].tool_calls[0]["args"] == {}
    assert asked(trajectory)[1][-1] == ("tool", "It is noon.")
    assert forks(trajectory) == [None, None]


@pytest.mark.parametrize(
    "reply",
    [
        '<tool_call>\n{"name": "get_time", "arguments": {"city": "Ro\n</tool_call>',
        '<tool_call>\n{"name": "get_time"}\n</tool_call>',
        call("get_time", "[1, 2]"),
        call("get_time", '"Rome"'),
        call("get_time", "7"),
    ],
    ids=["cut", "none", "list", "text", "number"],
)
async def test_arguments_that_are_no_object_are_the_text_of_the_last_turn(reply):
    trajectory = await run(assistant(), [reply])
    assert trajectory.error is None
    assert said(trajectory) == [reply]
    assert trajectory.output["messages"][-1].content == reply
    assert len(trajectory.turns[0].reply.malformed_calls) == 1


async def test_a_good_call_beside_a_malformed_one_is_made():
    bad = call("get_time", "[1, 2]")
    trajectory = await run(assistant(), [f"{bad}\n{ROME}", "Noon."])
    assert said(trajectory) == [f"{bad}\n{ROME}", "Noon."]
    assert asked(trajectory)[1][-1] == ("tool", "It is noon in Rome.")
    assert forks(trajectory) == [None, None]


@pytest.mark.parametrize(
    "written",
    ['{"city":"Rome"}', '{"city" : "Rome"}', '{"city": "Oslo", "city": "Rome"}', '{"city": "\\u0052ome"}'],
    ids=["tight", "loose", "twice", "escaped"],
)
async def test_arguments_stay_as_they_were_sampled_however_the_client_writes_them_again(written):
    trajectory = await run(assistant(), [call("get_time", written), "Noon."])
    assert said(trajectory)[0] == call("get_time", written)
    assert forks(trajectory) == [None, None]
    assert len(trajectory.samples()) == 1


async def test_a_tool_that_raises_may_be_answered_by_middleware():
    @wrap_tool_call
    async def told(request, handler):
        try:
            return await handler(request)
        except RuntimeError as error:
            return ToolMessage(f"failed: {error}", tool_call_id=request.tool_call["id"], status="error")

    trajectory = await run(assistant(middleware=[told]), [call("broken", '{"city": "Atlantis"}'), "There is none."])
    assert asked(trajectory)[1][-1] == ("tool", "failed: no such place: Atlantis")
    assert said(trajectory)[1] == "There is none."
    assert len(trajectory.samples()) == 1


async def test_a_tool_that_is_tried_again_asks_the_model_nothing():
    tries = ToolRetryMiddleware(max_retries=2, initial_delay=0, jitter=False, on_failure="continue")
    graph = create_agent(production_model(), [get_time, broken], middleware=[tries])
    trajectory = await run(graph, [call("broken", '{"city": "Atlantis"}'), "There is none."])
    assert len(trajectory.turns) == 2
    assert "no such place: Atlantis" in asked(trajectory)[1][-1][1]


async def test_a_result_of_blocks_is_their_text():
    @tool
    def look(city: str) -> list:
        """Look."""
        return [{"type": "text", "text": f"{city}: "}, {"type": "text", "text": "sunny"}]

    trajectory = await run(create_agent(production_model(), [look]), [call("look", '{"city": "Rome"}'), "Sunny."])
    assert asked(trajectory)[1][-1] == ("tool", "Rome: sunny")


async def test_a_tool_may_return_its_result_to_the_user():
    @tool(return_direct=True)
    def final(city: str) -> str:
        """Answer."""
        return f"noon in {city}"

    trajectory = await run(create_agent(production_model(), [final]), [call("final", '{"city": "Rome"}')])
    assert len(trajectory.turns) == 1
    assert trajectory.output["messages"][-1].content == "noon in Rome"


async def test_a_tool_that_asks_the_model_is_a_conversation_of_its_own():
    @tool
    def translate(text: str) -> str:
        """Translate into Latin."""
        return production_model().invoke(f"Latin for {text}").content

    trajectory = await run(
        create_agent(production_model(), [translate]), [call("translate", '{"text": "noon"}'), "meridies", "Meridies."]
    )
    assert asked(trajectory)[1] == [("user", "Latin for noon")]
    assert asked(trajectory)[2][-1] == ("tool", "meridies")
    assert forks(trajectory) == [None, "a new conversation", None]
    assert len(trajectory.samples()) == 2
