"""What users of other capture layers reported, as it must be here; each docstring names the row of the collection."""

from __future__ import annotations

import asyncio
import os
import warnings

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from opentelemetry import trace

import art_core as art
from art_core.errors import InputError, NotTrainable
from art_integrations.langgraph import LangGraphAgent, capture, install
from tests.unit.rollout.reading import said

from .graphs import END, START, Chat, StateGraph, assistant, chatbot, get_time, production_model
from .running import asked, callers, check_tokens, drive, forks, run

CALL = [("get_time", {"city": "Rome"})]


async def test_every_call_of_a_graph_is_a_turn_with_its_node():
    """Section 1, row 10: prompts and replies of calls were empty."""
    builder = StateGraph(Chat)
    model = production_model()
    for name in ("draft", "review"):
        builder.add_node(name, lambda state: {"messages": [model.invoke(state["messages"])]})
    for one, two in ((START, "draft"), ("draft", "review"), ("review", END)):
        builder.add_edge(one, two)
    trajectory = await run(builder.compile(), ["One.", "Two."])
    assert list(zip(callers(trajectory), said(trajectory), strict=True)) == [("draft", "One."), ("review", "Two.")]


async def test_an_empty_reply_is_trained_as_the_end_it_is():
    """Section 1, row 11: rows of no or only zero tokens were trained."""
    trajectory = await run(chatbot(), [""])
    (sample,) = trajectory.samples()
    assert sample.token_ids[sample.mask].tolist() == list(trajectory.turns[0].completion_ids)
    assert len(trajectory.turns[0].completion_ids) == 1


async def test_a_rollout_without_a_turn_has_nothing_to_train_and_says_so():
    """Section 1, rows 5, 11 and 12: nothing to train, and no message."""
    trajectory = await run(chatbot(), [RuntimeError("no ids")])
    with pytest.raises(NotTrainable, match=f"rollout '{trajectory.rollout_id}' has no turns"):
        trajectory.samples()


async def test_an_image_is_kept_in_the_request_and_named_in_its_text():
    """Section 1, row 8: parts that are no text."""
    picture = HumanMessage([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}])
    builder = StateGraph(Chat)
    builder.add_node("look", lambda state: {"messages": [production_model().invoke([picture])]})
    builder.add_edge(START, "look")
    builder.add_edge("look", END)
    trajectory = await run(builder.compile(), ["A dot."])
    (message,) = trajectory.graph.history("t0")[:-1]
    assert message.content[0] == {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    assert asked(trajectory) == [[("user", "[image_url]")]]


async def test_a_tracer_of_the_users_own_changes_nothing():
    """Section 1, row 13: with a tracer of one's own the reward was None."""
    install()
    tracer = trace.get_tracer("mine")

    def node(state):
        with tracer.start_as_current_span("mine"):
            return {"messages": [production_model().invoke(state["messages"])]}

    builder = StateGraph(Chat)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    assert said(await run(builder.compile(), ["Noon."])) == ["Noon."]


async def test_a_rollout_that_times_out_ends_with_the_turns_before():
    """Section 1, row 14: the late result killed the run."""
    entered, release = asyncio.Event(), asyncio.Event()

    async def slow(messages, tools):
        if len(messages) > 1:
            entered.set()
            await release.wait()
            return "late"
        return CALL

    trajectory = await run(assistant(), slow, limits=art.Limits(seconds=2))
    assert entered.is_set()
    release.set()
    assert trajectory.stop_reason == "timeout"
    assert len(trajectory.turns) == 1


@pytest.mark.parametrize("stream_mode", ["values", "messages"])
async def test_tokens_are_counted_however_a_graph_is_run(stream_mode):
    """Section 1, row 20: no token counts under ``ainvoke`` and ``stream_mode="messages"``."""

    async def how():
        parts = [part async for part in chatbot().astream({"messages": [("user", "Time?")]}, stream_mode=stream_mode)]
        return parts[-1]["messages"][-1] if stream_mode == "values" else _usage(parts)

    trajectory, seen = await drive(how, ["Noon."])
    (turn,) = trajectory.turns
    usage = seen if isinstance(seen, dict) else seen.usage_metadata
    assert (usage["input_tokens"], usage["output_tokens"]) == (len(turn.context_ids), len(turn.completion_ids))


def _usage(parts):
    return next(chunk.usage_metadata for chunk, _ in parts if chunk.usage_metadata)


async def test_an_agent_that_is_a_tool_is_a_nested_conversation():
    """Section 1, row 23: inner calls of agents that are tools were invisible."""
    inner = create_agent(production_model(), [get_time], system_prompt="You are a clock.", name="clock")

    async def ask_clock(question: str) -> str:
        """Ask the clock."""
        return (await inner.ainvoke({"messages": [("user", question)]}))["messages"][-1].content

    graph = create_agent(production_model(), [ask_clock], name="lead")
    trajectory = await run(graph, [[("ask_clock", {"question": "Rome?"})], CALL, "Noon.", "It is noon."])
    assert callers(trajectory, "agent") == ["lead", "clock", "clock", "lead"]
    assert forks(trajectory) == [None, "a new conversation", None, None]
    assert len(trajectory.samples()) == 2


async def test_a_sync_function_may_run_the_graph():
    """Section 7, row 10: a sync rollout function was a TypeError."""
    install()
    graph = assistant()

    def agent(scenario, session):
        return graph.invoke({"messages": [("user", scenario.input)]})["messages"][-1].content

    trajectory = await art.rollout(agent, art.Scenario("s", "Time?"), art.ScriptedPolicy([CALL, "Noon."]))
    check_tokens(trajectory)
    assert trajectory.output == "Noon."
    assert len(trajectory.samples()) == 1


def test_a_model_made_and_used_outside_of_a_rollout_is_the_production_model():
    """Section 7, row 10: a bare LookupError."""
    install()
    with pytest.raises(Exception, match="Connection error"):
        production_model().invoke("Time?")


async def test_tokens_are_streamed_one_after_the_other():
    """Section 7, row 11: ``astream`` gave one chunk."""

    async def chunks():
        return [chunk.text async for chunk in production_model().astream("Count.") if chunk.text]

    _, seen = await drive(chunks, ["one two three"])
    assert len(seen) == 3
    assert "".join(seen) == "one two three"


async def test_branches_are_one_trajectory_that_a_group_reward_can_compare():
    """Section 7, row 12: three branches with one prompt were three histories, which the judge refused."""
    builder = StateGraph(Chat)
    for name in ("a", "b", "c"):
        builder.add_node(name, lambda state: {"messages": [production_model().invoke("Joke?")]})
        builder.add_edge(START, name)
        builder.add_edge(name, END)

    class ByTurns:
        async def score_group(self, group):
            return [art.Reward(float(len(trajectory.turns))) for trajectory in group]

    agent, policy = LangGraphAgent(builder.compile()), art.ScriptedPolicy(lambda messages, tools: "Ha.")
    (group,) = await art.gather(agent, [art.Scenario("s", "Go.")], policy, reward=ByTurns(), group_size=2)
    assert group.rewards == [3.0, 3.0]
    assert [len(trajectory.samples()) for trajectory in group] == [3, 3]


async def test_a_rollout_leaves_nothing_on_the_disk(tmp_path, monkeypatch):
    """Section 7, row 13: two files per rollout, kept for ever."""
    monkeypatch.chdir(tmp_path)
    await run(assistant(), [CALL, "Noon."])
    assert os.listdir(tmp_path) == []


def test_nothing_warns_of_what_is_done_with_the_graph():
    """Section 1, row 1: the documented form did not work."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with capture(art.ScriptedPolicy(["Noon."])) as trajectory:
            chatbot().invoke({"messages": [("user", "Time?")]})
    assert said(trajectory) == ["Noon."]


async def test_an_empty_list_of_messages_is_told():
    """Section 7, row 2: an empty trajectory without an error."""
    builder = StateGraph(Chat)
    builder.add_node("node", lambda state: {"messages": [production_model().invoke([])]})
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    trajectory = await run(builder.compile(), ["never"])
    assert trajectory.turns == []
    assert "messages must be a list of at least one message" in trajectory.error


def test_what_selects_nothing_is_told():
    """Section 1, row 22: adapters and filters by the agent's name."""
    with pytest.raises(InputError, match="train must name models, nodes or agents"):
        LangGraphAgent(chatbot(), train=[])
