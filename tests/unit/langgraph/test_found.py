"""The tools of a graph, found and told before the first rollout."""

from __future__ import annotations

import pytest
from langchain_core.tools import tool
from langgraph.prebuilt import ToolNode

from art_core.cli.references import make_agent
from art_core.errors import InputError
from art_core.loop.preflight import list_tools
from art_integrations.langgraph import LangGraphAgent
from art_integrations.langgraph.cli import GraphOptions
from art_integrations.langgraph.found import tools_in

from .graphs import assistant, chatbot, create_agent, get_time, graph_of, production_model

GRAPH = "tests.unit.langgraph.graphs:assistant"


@tool
def cancel_order(order: str) -> str:
    """Cancel an order."""
    raise AssertionError("the real tool")


@tool
def find_order(order: str) -> str:
    """Find an order."""
    return "found"


def answer_from_tests(scenario):
    return "found"


BY_NAME = {"find_order": find_order}


def around(inner):
    return lambda state: {"messages": inner.invoke(state)["messages"][-1:]}


def by_hand(state):
    return {"messages": [("user", BY_NAME["find_order"].invoke({"order": "7"}))]}


@pytest.mark.parametrize(
    ("graph", "names"),
    [
        (chatbot(), []),
        (assistant(), ["broken", "get_time"]),
        (graph_of(ToolNode([find_order, cancel_order])), ["cancel_order", "find_order"]),
        (graph_of(assistant()), ["broken", "get_time"]),
        (graph_of(around(assistant())), ["broken", "get_time"]),
        (graph_of(graph_of(ToolNode([get_time]))), ["get_time"]),
        (graph_of(by_hand), ["find_order"]),
    ],
    ids=["none", "agent", "tool node", "nested", "nested in a function", "twice nested", "called by a node"],
)
def test_tools_are_found_in_the_compiled_graph(graph, names):
    assert list(tools_in(graph)) == names


def shop():
    return create_agent(production_model(), [cancel_order, find_order])


async def listed(graph, **options):
    notes = []
    return await list_tools(LangGraphAgent(graph, **options), notes.append), notes


@pytest.mark.parametrize("graph", [shop(), shop, lambda config: shop()], ids=["graph", "factory", "of the config"])
async def test_what_answers_each_tool_is_told_before_the_first_rollout(graph):
    tools, notes = await listed(graph, tools={"cancel_order": "cancelled", "no_such": "x"})
    assert tools == {"cancel_order": "stub", "find_order": "real", "no_such": "not found"}
    assert notes == [
        "tools found in the agent: cancel_order (stub), find_order (real), no_such (not found); those that only its tools call "
        "cannot be seen from here"
    ]


async def test_a_graph_without_tools_has_nothing_to_tell():
    assert await listed(chatbot()) == ({}, [])


async def test_an_agent_that_cannot_tell_is_not_asked():
    assert await list_tools(lambda scenario, session: None, print) == {}


async def test_a_destructive_tool_is_told_before_the_first_rollout():
    with pytest.raises(
        InputError, match=r"tool 'cancel_order' would really run .* its name says 'cancel'; answer in its"
    ):
        await listed(shop())
    assert await listed(shop(), allow_destructive=["cancel_order"])


async def test_a_factory_that_fails_is_told():
    def broken_factory():
        raise KeyError("DATABASE")

    with pytest.raises(InputError, match="the factory of the graph failed: KeyError: 'DATABASE'"):
        await listed(broken_factory)


async def test_stubs_are_given_as_plain_text_in_a_file_or_on_the_command_line(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"tool": "broken", "arguments": {}, "result": "x"}')
    given = (
        f"broken=replay:{tmp_path}/a.jsonl",
        "get_time=tests.unit.langgraph.test_found:answer_from_tests",
        "b=text:a=b:c",
    )
    record = GraphOptions(tools=given, allow_destructive=True).record(GRAPH)
    assert record["allow_destructive"] is True
    assert record["tools"]["b"] == "text:a=b:c"
    agent = make_agent({name: value for name, value in record.items() if value is not None})
    assert await agent.tools_found() == {"broken": "replay", "get_time": "stub", "b": "not found"}


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        (("get_time",), "--tools 'get_time' does not say what answers; write NAME=module:function"),
        (("get_time=",), "--tools 'get_time=' does not say what answers"),
    ],
)
def test_what_says_no_answer_is_told(tools, message):
    with pytest.raises(InputError, match=message):
        GraphOptions(tools=tools).record(GRAPH)


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ("x", "tools must give tools by name what answers in their place, got 'x'"),
        ({"get_time": "nowhere:f"}, "stub of tool 'get_time', 'nowhere:f': there is no module 'nowhere'"),
        ({"get_time": "replay:no.jsonl"}, "cannot read 'no.jsonl'"),
    ],
)
def test_a_stub_that_cannot_be_made_is_told(tools, message):
    with pytest.raises(InputError, match=message):
        make_agent({"kind": "langgraph", "graph": GRAPH, "tools": tools})
