"""Branches, subgraphs and threads: calls that run side by side are rows of their own, each with its caller."""

from __future__ import annotations

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor
from operator import add
from typing import Annotated, TypedDict

import pytest
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langchain_core.runnables.config import ContextThreadPoolExecutor, run_in_executor
from langgraph.func import entrypoint, task
from langgraph.types import Send

from tests.unit.rollout.reading import said

from .graphs import END, START, Chat, StateGraph, assistant, chatbot, production_model
from .running import asked, callers, drive, forks, run

ROME = [{"role": "user", "content": "What time is it in Rome?"}]


def echo(messages, tools):
    return f"re: {messages[-1].text}"


class Notes(TypedDict):
    topic: str
    notes: Annotated[list[str], add]


def note(text):
    return lambda state: {"notes": [production_model().invoke(text.format(**state)).content]}


async def test_branches_of_a_graph_are_rows_that_know_their_node_and_step():
    builder = StateGraph(Notes)
    builder.add_node("praise", note("Praise {topic}."))
    builder.add_node("blame", note("Blame {topic}."))
    builder.add_node("judge", note("Judge {notes}."))
    for node in ("praise", "blame"):
        builder.add_edge(START, node)
    builder.add_edge(["praise", "blame"], "judge")
    builder.add_edge("judge", END)
    trajectory = await run(builder.compile(), echo, {"topic": "tea", "notes": []})
    assert sorted(said(trajectory)[:2]) == ["re: Blame tea.", "re: Praise tea."]
    assert sorted(callers(trajectory)[:2]) == ["blame", "praise"]
    assert callers(trajectory, "step") == [1, 1, 2]
    assert asked(trajectory)[2] == [("user", "Judge ['re: Blame tea.', 're: Praise tea.'].")]
    assert len(trajectory.samples()) == 3


async def test_equal_requests_of_branches_are_each_trained():
    builder = StateGraph(Notes)
    builder.add_node("note", note("Praise tea."))
    builder.add_edge("note", END)
    builder.add_conditional_edges(START, lambda state: [Send("note", {"topic": "tea", "notes": []})] * 3)
    trajectory = await run(builder.compile(), ["One.", "Two.", "Three."], {"topic": "tea", "notes": []})
    assert sorted(said(trajectory)) == ["One.", "Three.", "Two."]
    assert len({str(path) for path in callers(trajectory, "path")}) == 3
    assert len(trajectory.samples()) == 3


async def test_branches_that_go_on_from_one_turn_train_it_once():
    model = production_model()

    async def node(state):
        first = await model.ainvoke(state["messages"])
        history = [*state["messages"], first]
        both = await asyncio.gather(*(model.ainvoke([*history, ("user", text)]) for text in ("Why?", "How?")))
        return {"messages": [first, *both]}

    builder = StateGraph(Chat)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    trajectory = await run(builder.compile(), echo, "Time?")
    assert [turn.parent for turn in trajectory.turns] == [None, "t0", "t0"]
    assert forks(trajectory) == [None, None, None]
    assert sum(int(s.mask.sum()) for s in trajectory.samples()) == trajectory.sampled_tokens


@pytest.mark.parametrize("inner", [chatbot(), chatbot(is_async=True)], ids=["sync", "async"])
async def test_a_subgraph_that_is_a_node_continues_the_conversation(inner):
    builder = StateGraph(Chat)
    builder.add_node("first", inner)
    builder.add_node("more", lambda state: {"messages": [("user", "And in Oslo?")]})
    builder.add_node("second", inner)
    for one, two in ((START, "first"), ("first", "more"), ("more", "second"), ("second", END)):
        builder.add_edge(one, two)
    trajectory = await run(builder.compile(), ["Noon.", "Noon too."])
    spaces = [space.split(":")[0] for space in callers(trajectory, "namespace")]
    assert spaces == ["first", "second"]
    assert callers(trajectory) == ["answer", "answer"]
    assert forks(trajectory) == [None, None]
    assert len(trajectory.samples()) == 1


async def test_an_agent_that_is_a_node_keeps_its_name():
    builder = StateGraph(Chat)
    builder.add_node("clerk", assistant(name="clerk", system_prompt="You are a clerk."))
    builder.add_edge(START, "clerk")
    builder.add_edge("clerk", END)
    trajectory = await run(builder.compile(), [[("get_time", {"city": "Rome"})], "Noon."])
    assert callers(trajectory, "agent") == ["clerk", "clerk"]
    assert asked(trajectory)[0][0] == ("system", "You are a clerk.")
    assert len(trajectory.samples()) == 1


async def test_a_stream_of_subgraphs_gives_parent_and_child_apart():
    builder = StateGraph(Chat)
    builder.add_node("inner", chatbot())
    builder.add_edge(START, "inner")
    builder.add_edge("inner", END)
    graph = builder.compile()

    async def how():
        updates = graph.astream({"messages": ROME}, stream_mode="updates", subgraphs=True)
        return [(len(space), *update) async for space, update in updates]

    trajectory, seen = await drive(how, ["Noon."])
    assert seen == [(1, "answer"), (0, "inner")]
    assert said(trajectory) == ["Noon."]


async def test_tasks_of_the_functional_api_run_side_by_side():
    @task
    def joke(topic: str) -> str:
        return production_model().invoke(f"a joke about {topic}").content

    @entrypoint()
    def flow(topics: list[str]) -> list[str]:
        return [future.result() for future in [joke(topic) for topic in topics]]

    trajectory = await run(flow, echo, ["cats", "dogs"])
    assert trajectory.output == ["re: a joke about cats", "re: a joke about dogs"]
    assert callers(trajectory) == ["joke", "joke"]


def in_langchains_pool(call, questions):
    with ContextThreadPoolExecutor() as pool:
        return list(pool.map(call, questions))


def in_a_pool_with_the_context(call, questions):
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(contextvars.copy_context().run, call, question) for question in questions]
        return [job.result() for job in jobs]


def in_parallel_runnables(call, questions):
    made = RunnableParallel({q: RunnableLambda(lambda _, q=q: call(q)) for q in questions}).invoke("")
    return [made[q] for q in questions]


def as_a_batch(call, questions):
    return [m.content for m in production_model().batch(questions)]


@pytest.mark.parametrize("pool", [in_langchains_pool, in_a_pool_with_the_context, in_parallel_runnables, as_a_batch])
async def test_calls_from_a_pool_of_threads_are_turns(pool):
    def node(state):
        answers = pool(lambda question: production_model().invoke(question).content, ["one?", "two?", "three?"])
        return {"messages": [("user", answer) for answer in answers]}

    builder = StateGraph(Chat)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    trajectory = await run(builder.compile(), echo)
    assert [m.content for m in trajectory.output["messages"][1:]] == ["re: one?", "re: two?", "re: three?"]
    assert callers(trajectory) == ["node"] * 3
    assert len(trajectory.samples()) == 3


async def test_a_call_from_langchains_executor_is_a_turn():
    async def node(state):
        return {"messages": [await run_in_executor(None, production_model().invoke, state["messages"])]}

    builder = StateGraph(Chat)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    assert said(await run(builder.compile(), ["Noon."])) == ["Noon."]
