"""Tools in a rollout: replaced where that is asked for, recorded in any case, and refused where they can do harm."""

from __future__ import annotations

import threading
from typing import Annotated

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, Tool, tool
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

import art_core as art
from art_core.errors import InputError
from art_integrations.langgraph import LangGraphAgent, install, uninstall

from .graphs import END, START, Chat, StateGraph, assistant, create_agent, get_time, production_model
from .running import asked, run

ROME = [("get_time", {"city": "Rome"})]


def with_tools(*tools, **options):
    return create_agent(production_model(), list(tools), **options)


def shown(trajectory):
    """What the model was shown of its tools."""
    return [text for role, text in asked(trajectory)[-1] if role == "tool"]


def calls(trajectory):
    return [(e.name, e.arguments, e.result, e.error, e.metadata["answered_by"]) for e in trajectory.events]


async def test_a_call_of_a_real_tool_is_recorded():
    trajectory = await run(assistant(), [ROME, "Noon."])
    assert calls(trajectory) == [("get_time", {"city": "Rome"}, "It is noon in Rome.", None, "real")]
    (event,) = trajectory.events
    assert event.turn == "t0"
    assert event.call_id == trajectory.turns[0].reply.tool_calls[0].id
    assert 0 <= event.started_s <= event.ended_s


async def test_a_tool_that_raises_is_recorded():
    trajectory = await run(assistant(), [[("broken", {"city": "Atlantis"})]])
    assert calls(trajectory) == [
        ("broken", {"city": "Atlantis"}, "RuntimeError: no such place: Atlantis", "tool_error", "real")
    ]


async def test_arguments_that_do_not_fit_are_recorded():
    trajectory = await run(assistant(), [[("get_time", {"town": "Rome"})], "Sorry."])
    assert trajectory.events[0].error == "invalid_arguments"


def stubbed(city):
    return f"late in {city}"


async def stubbed_async(city):
    return f"late in {city}"


@pytest.mark.parametrize(
    ("stub", "answer"), [(stubbed, "late in Rome"), (stubbed_async, "late in Rome"), ("unknown", "unknown")]
)
async def test_a_stub_answers_in_the_place_of_the_tool(stub, answer):
    trajectory = await run(assistant(), [ROME, "Late."], tools={"get_time": stub})
    assert shown(trajectory) == [answer]
    assert calls(trajectory) == [("get_time", {"city": "Rome"}, answer, None, "stub")]
    assert trajectory.turns[0].tools[0].description == "Tell the time in a city."


@pytest.mark.parametrize("stub", [stubbed, stubbed_async])
async def test_a_stub_answers_a_sync_call_too(stub):
    builder = StateGraph(Chat)
    model = production_model()

    def node(state):
        return {"messages": [model.invoke(get_time.invoke({"city": "Rome"}))]}

    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    trajectory = await run(builder.compile(), ["ok"], tools={"get_time": stub})
    assert asked(trajectory) == [[("user", "late in Rome")]]
    assert trajectory.events[0].turn is None


async def test_the_arguments_are_checked_before_a_stub_is_asked():
    trajectory = await run(assistant(), [[("get_time", {"town": "Rome"})], "Sorry."], tools={"get_time": stubbed})
    assert shown(trajectory)[0].startswith("Error invoking tool 'get_time' with kwargs {'town': 'Rome'}")


async def test_a_stub_gets_what_the_model_wrote_and_not_what_the_graph_injects():
    @tool
    def remember(text: str, call_id: Annotated[str, InjectedToolCallId]) -> str:
        """Remember a text."""
        raise AssertionError("the real tool")

    trajectory = await run(
        with_tools(remember), [[("remember", {"text": "x"})], "ok"], tools={"remember": lambda text: text * 3}
    )
    assert shown(trajectory) == ["xxx"]
    assert trajectory.events[0].arguments == {"text": "x"}


async def test_a_tool_of_one_text_has_a_stub_of_one_text():
    echo = Tool(name="echo", description="Echo.", func=lambda text: text)
    trajectory = await run(
        with_tools(echo), [[("echo", {"__arg1": "hi"})], "ok"], tools={"echo": lambda text: text.upper()}
    )
    assert shown(trajectory) == ["HI"]


async def test_what_a_tool_calls_is_recorded_and_replaced_too():
    inner = assistant()

    @tool
    async def ask_clock(question: str) -> str:
        """Ask the clock."""
        state = await inner.ainvoke({"messages": [("user", question)]})
        return state["messages"][-1].content

    trajectory = await run(
        with_tools(ask_clock),
        [[("ask_clock", {"question": "Time?"})], ROME, "It is late.", "Late."],
        tools={"get_time": stubbed},
    )
    assert calls(trajectory) == [
        ("get_time", {"city": "Rome"}, "late in Rome", None, "stub"),
        ("ask_clock", {"question": "Time?"}, "It is late.", None, "real"),
    ]
    assert [event.turn for event in trajectory.events] == ["t1", "t0"]


async def test_tool_calls_have_a_limit():
    policy = art.ScriptedPolicy(lambda messages, tools: [("get_time", {"city": "Rome"})])
    trajectory = await art.rollout(
        LangGraphAgent(assistant()), art.Scenario("s", "Time?"), policy, limits=art.Limits(tool_calls=2)
    )
    assert (trajectory.stop_reason, len(trajectory.events), len(trajectory.turns)) == ("max_tool_calls", 2, 3)


async def test_a_command_of_a_tool_is_recorded_by_the_message_in_it():
    @tool
    def transfer_to_billing(call_id: Annotated[str, InjectedToolCallId]) -> Command:
        """Hand over."""
        return Command(update={"messages": [ToolMessage("handed over", tool_call_id=call_id)]})

    trajectory = await run(with_tools(transfer_to_billing), [[("transfer_to_billing", {})], "ok"])
    assert calls(trajectory) == [("transfer_to_billing", {}, "handed over", None, "real")]


async def test_outside_of_a_rollout_a_tool_is_itself():
    await run(assistant(), [ROME, "ok"], tools={"get_time": stubbed})
    assert get_time.invoke({"city": "Rome"}) == "It is noon in Rome."


async def test_under_no_capture_a_tool_is_itself():
    @tool
    def judge(city: str) -> str:
        """Judge."""
        with art.no_capture():
            return get_time.invoke({"city": city})

    trajectory = await run(with_tools(judge), [[("judge", {"city": "Rome"})], "ok"], tools={"get_time": stubbed})
    assert [event.name for event in trajectory.events] == ["judge"]
    assert shown(trajectory) == ["It is noon in Rome."]


def test_the_hook_of_tools_goes_with_that_of_models():
    uninstall()
    before = BaseTool.run, BaseTool.arun
    LangGraphAgent(assistant())
    assert BaseTool.run.__wrapped__ is before[0]
    uninstall()
    assert (BaseTool.run, BaseTool.arun) == before
    install()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tools": {"get_time": 3}}, "tools gives 'get_time' 3; a function of the tool's arguments, a text, or Replay"),
        ({"tools": ["get_time"]}, "tools must give tools by name what answers in their place"),
        ({"allow_destructive": 3}, "allow_destructive must be true, false or names of tools, got 3"),
    ],
)
def test_options_that_cannot_be_used_are_told(options, message):
    with pytest.raises(InputError, match=message):
        LangGraphAgent(assistant(), **options)


def harmful(name="delete_order", **options):
    done = []

    @tool(name, **options)
    def harm(order: str) -> str:
        """Do harm."""
        done.append(order)
        return "gone"

    return harm, done


HARM = [[("delete_order", {"order": "7"})], "Done."]


async def test_a_destructive_tool_is_refused_before_it_runs():
    harm, done = harmful()
    trajectory = await run(with_tools(harm), HARM)
    assert trajectory.error == (
        "agent: tool 'delete_order' would really run while the model explores, and its name says 'delete'; answer in its place "
        "with tools={'delete_order': ...}, or let it run with allow_destructive=['delete_order'] (--allow-destructive for all)"
    )
    assert (done, trajectory.events) == ([], [])


@pytest.mark.parametrize("allowed", [True, ["delete_order"], "delete_order"])
async def test_a_destructive_tool_that_is_allowed_runs(allowed):
    harm, done = harmful()
    trajectory = await run(with_tools(harm), HARM, allow_destructive=allowed)
    assert (trajectory.error, done) == (None, ["7"])


async def test_a_destructive_tool_with_a_stub_needs_no_permission():
    harm, done = harmful()
    trajectory = await run(with_tools(harm), HARM, tools={"delete_order": "gone"})
    assert (trajectory.error, done, shown(trajectory)) == (None, [], ["gone"])


async def test_a_graph_that_handles_all_errors_of_its_tools_ends_all_the_same():
    harm, done = harmful()
    builder = StateGraph(Chat)
    model = production_model().bind_tools([harm])
    builder.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    builder.add_node("tools", ToolNode([harm], handle_tool_errors=True))
    builder.add_edge(START, "model")
    builder.add_edge("model", "tools")
    builder.add_edge("tools", END)
    trajectory = await run(builder.compile(), HARM)
    assert trajectory.error.startswith("agent: tool 'delete_order' would really run")
    assert done == []


async def test_a_destructive_tool_is_refused_in_a_raw_thread_too():
    harm, done = harmful()

    @tool
    def look_up(order: str) -> str:
        """Look up an order."""

        def destroy():
            with pytest.raises(InputError):
                harm.invoke({"order": order})

        thread = threading.Thread(target=destroy)
        thread.start()
        thread.join()
        return "found"

    trajectory = await run(with_tools(look_up), [[("look_up", {"order": "7"})], "Done."])
    assert trajectory.error.startswith("agent: tool 'delete_order' would really run")
    assert done == []


@pytest.mark.parametrize(
    ("name", "metadata", "refused"),
    [
        ("delete_order", {"readOnlyHint": True}, False),
        ("lookup", {"destructiveHint": True}, True),
        ("lookup", {"annotations": {"openWorldHint": True}}, True),
        ("lookup", {"mcp": {"tool": {"annotations": {"destructive_hint": True}}}}, True),
        ("lookup", {"mcp": {"tool": {"annotations": {"destructive_hint": True, "read_only_hint": True}}}}, False),
        ("transfer_to_account", {}, True),
        ("transfer_to_billing", {"__handoff_destination": "billing"}, False),
        ("lookup", {}, False),
    ],
)
async def test_hints_of_an_mcp_server_count_more_than_the_name(name, metadata, refused):
    harm, _ = harmful(name)
    harm.metadata = metadata
    trajectory = await run(with_tools(harm), [[(name, {"order": "7"})], "Done."])
    assert (trajectory.error is not None) == refused
