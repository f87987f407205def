"""Interrupts, checkpoints, stores and caches: what is asked once is trained once, and rollouts share nothing."""

from __future__ import annotations

import asyncio

from langchain_core.caches import InMemoryCache as ReplyCache
from langchain_core.globals import get_llm_cache, set_llm_cache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt

import art_core as art
from art_integrations.langgraph import LangGraphAgent
from tests.unit.rollout.reading import said

from .graphs import END, START, Chat, StateGraph, assistant, chatbot, production_model
from .running import asked, check_tokens, drive, forks, run


def line(*nodes, **options):
    """A graph that runs ``nodes`` one after the other."""
    builder = StateGraph(Chat)
    names = [f"n{number}" for number in range(len(nodes))]
    for name, node in zip(names, nodes, strict=True):
        builder.add_node(name, node)
    for one, two in zip([START, *names], [*names, END], strict=True):
        builder.add_edge(one, two)
    return builder.compile(checkpointer=InMemorySaver(), **options)


def answer(state):
    return {"messages": [production_model().invoke(state["messages"])]}


async def test_what_is_asked_before_an_interrupt_in_its_own_node_is_asked_once():
    graph = line(answer, lambda state: {"messages": [("user", interrupt("And?"))]}, answer)
    trajectory = await run(graph, ["Noon.", "Later."], on_interrupt=lambda interrupts: "And then?")
    assert said(trajectory) == ["Noon.", "Later."]
    assert asked(trajectory)[1][1:] == [("assistant", "Noon."), ("user", "And then?")]
    assert forks(trajectory) == [None, None]
    assert len(trajectory.samples()) == 1


async def test_what_is_asked_before_an_interrupt_in_the_same_node_is_asked_again():
    def node(state):
        first = production_model().invoke(state["messages"])
        return {"messages": [first, ("user", interrupt(first.content))]}

    trajectory = await run(line(node, answer), ["Sure?", "Really?", "Good."], on_interrupt=lambda interrupts: "Yes.")
    assert said(trajectory) == ["Sure?", "Really?", "Good."]
    assert asked(trajectory)[2][1:] == [("assistant", "Really?"), ("user", "Yes.")]
    assert forks(trajectory) == [None, "the same request again", None]


async def test_several_interrupts_are_answered_one_after_the_other():
    seen = []

    def person(interrupts):
        seen.append([i.value for i in interrupts])
        return f"answer {len(seen)}"

    def ask(state):
        return {"messages": [("user", interrupt(f"question {len(state['messages'])}"))]}

    trajectory = await run(line(ask, ask, answer), ["Thanks."], "Hello", on_interrupt=person)
    assert seen == [["question 1"], ["question 2"]]
    assert asked(trajectory) == [[("user", "Hello"), ("user", "answer 1"), ("user", "answer 2")]]


async def test_an_interrupt_before_a_node_stops_the_graph_with_the_turns_so_far():
    graph = line(answer, answer, interrupt_before=["n1"])
    trajectory = await run(graph, ["Noon.", "never"])
    assert said(trajectory) == ["Noon."]


async def test_two_runs_on_one_thread_are_one_conversation():
    graph = assistant(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "one"}}

    async def talk():
        await graph.ainvoke({"messages": [("user", "Time?")]}, config)
        return await graph.ainvoke({"messages": [("user", "And in Oslo?")]}, config)

    trajectory, state = await drive(talk, ["Noon.", "Noon too."])
    assert [m.content for m in state["messages"]] == ["Time?", "Noon.", "And in Oslo?", "Noon too."]
    assert forks(trajectory) == [None, None]
    assert len(trajectory.samples()) == 1


async def test_a_run_from_an_earlier_checkpoint_is_a_branch_that_trains_the_beginning_once():
    graph = line(answer, answer)
    config = {"configurable": {"thread_id": "one"}}

    async def talk():
        await graph.ainvoke({"messages": [("user", "Time?")]}, config)
        past = [s async for s in graph.aget_state_history(config) if s.next == ("n1",)]
        return await graph.ainvoke(None, past[0].config)

    trajectory, _ = await drive(talk, ["Noon.", "One.", "Two."])
    assert said(trajectory) == ["Noon.", "One.", "Two."]
    assert asked(trajectory)[1] == asked(trajectory)[2]
    assert [turn.parent for turn in trajectory.turns] == [None, "t0", "t0"]
    assert len(trajectory.samples()) == 2


async def test_resuming_by_hand_is_the_same_conversation():
    graph = line(answer, lambda state: {"messages": [("user", interrupt("And?"))]}, answer)
    config = {"configurable": {"thread_id": "one"}}

    async def talk():
        await graph.ainvoke({"messages": [("user", "Time?")]}, config)
        return await graph.ainvoke(Command(resume="And then?"), config)

    trajectory, _ = await drive(talk, ["Noon.", "Later."])
    assert forks(trajectory) == [None, None]
    assert said(trajectory) == ["Noon.", "Later."]


async def test_a_checkpointer_knows_nothing_of_other_rollouts():
    graph = line(answer)
    for number in range(2):
        trajectory = await run(graph, [f"Noon {number}."], config={"configurable": {"thread_id": "fixed"}})
        assert asked(trajectory) == [[("user", "What time is it in Rome?")]]


async def test_a_shared_store_is_kept_where_that_is_asked_for():
    def node(state, *, store):
        known = store.get(("users",), "ada") is not None
        store.put(("users",), "ada", {"seen": True})
        return {"messages": [production_model().invoke(f"known: {known}")]}

    graph = line(node, store=InMemoryStore())
    requests = [asked(await run(graph, ["hm"], share=True)) for _ in range(2)]
    assert requests == [[[("user", "known: False")]], [[("user", "known: True")]]]


async def test_a_global_cache_of_replies_saves_no_rollout_its_samples():
    before = get_llm_cache()
    set_llm_cache(ReplyCache())
    try:
        assert [said(await run(chatbot(), [text])) for text in ("one", "two")] == [["one"], ["two"]]
    finally:
        set_llm_cache(before)


async def test_sixty_four_rollouts_of_a_graph_with_a_checkpointer_do_not_mix():
    graph = line(answer, lambda state: {"messages": [("user", interrupt("And?"))]}, answer)
    agent = LangGraphAgent(graph, on_interrupt=lambda interrupts: "More?")
    policy = art.ScriptedPolicy(lambda messages, tools: f"{messages[0].text} {len(messages)}")
    scenarios = [art.Scenario(f"s{n}", f"question {n}") for n in range(64)]
    async with asyncio.timeout(60):
        trajectories = await asyncio.gather(*(art.rollout(agent, scenario, policy) for scenario in scenarios))
    assert [said(t) for t in trajectories] == [[f"question {n} 1", f"question {n} 3"] for n in range(64)]
    for trajectory in trajectories:
        check_tokens(trajectory)
    assert {len(t.samples()) for t in trajectories} == {1}
