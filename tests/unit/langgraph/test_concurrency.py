"""One graph object, many rollouts at once: every call lands in its own, and nobody waits for ever."""

from __future__ import annotations

import asyncio
from operator import add
from typing import Annotated, TypedDict

import pytest
from langgraph.types import Send

import art_core as art
from art_integrations.langgraph import LangGraphAgent
from tests.unit.rollout.reading import said

from .graphs import END, START, Chat, StateGraph, assistant, chatbot, production_model
from .running import check_tokens, run


def echo(messages, tools):
    """An answer that names its rollout."""
    return f"re: {messages[-1].text}"


async def many(graph, count=64):
    agent, policy = LangGraphAgent(graph), art.ScriptedPolicy(echo)
    scenarios = [art.Scenario(f"s{n}", f"question {n}") for n in range(count)]
    async with asyncio.timeout(60):
        trajectories = await asyncio.gather(*(art.rollout(agent, scenario, policy) for scenario in scenarios))
    for trajectory in trajectories:
        check_tokens(trajectory)
    return trajectories


def nested():
    """A sync graph whose sync node calls a sync graph."""
    inner = chatbot()
    builder = StateGraph(Chat)
    builder.add_node("outer", lambda state: {"messages": inner.invoke(state)["messages"][-1:]})
    builder.add_edge(START, "outer")
    builder.add_edge("outer", END)
    return builder.compile()


@pytest.mark.parametrize(
    "graph", [chatbot(), chatbot(is_async=True), nested(), assistant()], ids=["sync", "async", "nested", "tools"]
)
async def test_sixty_four_rollouts_of_one_graph_do_not_mix(graph):
    trajectories = await many(graph)
    assert [said(t) for t in trajectories] == [[f"re: question {n}"] for n in range(64)]


class Topics(TypedDict):
    topics: list[str]
    jokes: Annotated[list[str], add]


async def test_parallel_branches_are_rows_of_their_own():
    model = production_model()
    builder = StateGraph(Topics)
    builder.add_node("joke", lambda state: {"jokes": [model.invoke(f"a joke about {state['topic']}").content]})
    builder.add_conditional_edges(START, lambda state: [Send("joke", {"topic": t}) for t in state["topics"]])
    builder.add_edge("joke", END)
    trajectory = await run(builder.compile(), echo, {"topics": ["cats", "dogs", "cats"]})
    assert sorted(trajectory.output["jokes"]) == ["re: a joke about cats"] * 2 + ["re: a joke about dogs"]
    assert len(trajectory.samples()) == 3
    assert len({str(turn.metadata["call"]["path"]) for turn in trajectory.turns}) == 3


async def test_a_nested_graph_says_in_which_namespace_it_was():
    trajectory = await run(nested(), ["Noon."])
    call = trajectory.turns[0].metadata["call"]
    assert call["node"] == "answer"
    assert call["namespace"].split("|")[0].startswith("outer:")
