"""Finding the graph, giving it its input, and keeping rollouts apart."""

from __future__ import annotations

from typing import TypedDict

import pytest
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint
from langgraph.store.memory import InMemoryStore
from langgraph.types import CachePolicy, interrupt

from tests.unit.rollout.reading import said

from .graphs import END, START, Chat, StateGraph, chatbot, production_model
from .running import asked, run


def asking():
    """A graph that asks a person before it asks its model."""

    def node(state):
        name = interrupt("Who are you?")
        return {"messages": [production_model().invoke(f"I am {name}.")]}

    builder = StateGraph(Chat)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    return builder.compile(checkpointer=InMemorySaver())


async def test_interrupts_are_answered():
    trajectory = await run(asking(), ["Hello, Ada."], on_interrupt=lambda interrupts: "Ada")
    assert asked(trajectory) == [[("user", "I am Ada.")]]
    assert said(trajectory) == ["Hello, Ada."]


async def test_an_interrupt_that_nobody_answers_ends_the_rollout_with_the_cure():
    trajectory = await run(asking(), ["never"])
    assert trajectory.stop_reason == "error"
    assert trajectory.error.startswith("agent: the graph stopped to ask ('Who are you?') and nobody answers; give ")


@pytest.mark.parametrize("make", [lambda: chatbot(), lambda config: chatbot()], ids=["of nothing", "of the config"])
async def test_a_factory_makes_a_graph_for_every_rollout(make):
    assert said(await run(make, ["Noon."])) == ["Noon."]


async def test_a_graph_is_found_by_its_name():
    assert said(await run("tests.unit.langgraph.graphs:assistant", ["Noon."])) == ["Noon."]


async def test_a_node_cache_does_not_save_a_rollout_its_samples():
    builder = StateGraph(Chat)
    model = production_model()
    policy = CachePolicy(key_func=lambda state: "same")
    builder.add_node("node", lambda s: {"messages": [model.invoke(s["messages"])]}, cache_policy=policy)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    graph = builder.compile(cache=InMemoryCache())
    assert [said(await run(graph, [text])) for text in ("one", "two")] == [["one"], ["two"]]


async def test_a_store_is_empty_at_the_beginning_of_every_rollout():
    def node(state, *, store):
        known = store.get(("users",), "ada") is not None
        store.put(("users",), "ada", {"seen": True})
        return {"messages": [production_model().invoke(f"known: {known}")]}

    builder = StateGraph(Chat)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    graph = builder.compile(store=InMemoryStore())
    for _ in range(2):
        assert asked(await run(graph, ["hm"])) == [[("user", "known: False")]]


class Question(TypedDict):
    question: str


class Answered(Question):
    answer: str


def one_field(schema=Question):
    builder = StateGraph(Answered, input_schema=schema)
    model = production_model()
    builder.add_node("node", lambda state: {"answer": model.invoke(state["question"]).content})
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    return builder.compile()


@pytest.mark.parametrize("given", ["Time?", {"question": "Time?"}])
async def test_a_text_goes_into_the_only_field_of_a_graphs_input(given):
    assert asked(await run(one_field(), ["Noon."], given)) == [[("user", "Time?")]]


async def test_a_graph_of_the_functional_api_gets_the_input_as_it_is():
    @entrypoint()
    def flow(question: str) -> str:
        return production_model().invoke(question).content

    trajectory = await run(flow, ["Noon."], "Time?")
    assert trajectory.output == "Noon."


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"query": "Time?"}, "has the field 'query', which the graph's input does not have; it has question"),
        ("Time?", "is a str, and the graph's input has the fields question, answer; write the"),
    ],
)
async def test_an_input_that_does_not_fit_is_told_before_the_model_is_asked(given, message):
    graph = one_field() if isinstance(given, dict) else one_field(Answered)
    trajectory = await run(graph, ["never"], given)
    assert message in trajectory.error
    assert trajectory.turns == []


async def test_an_async_node_may_call_its_model_synchronously():
    async def node(state):
        return {"messages": [production_model().invoke(state["messages"])]}

    builder = StateGraph(Chat)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    trajectory = await run(builder.compile(), ["Noon."])
    assert said(trajectory) == ["Noon."]
    assert trajectory.metrics["blocking_calls"] == 1
