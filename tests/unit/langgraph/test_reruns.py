"""Which turns are superseded: those whose node or chain was run again, and no others."""

from __future__ import annotations

import pytest
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.types import RetryPolicy, Send, interrupt

import art_core as art
from art_integrations.langgraph import LangGraphAgent

from .graphs import END, START, Chat, StateGraph, graph_of, production_model

AGAIN = RetryPolicy(initial_interval=0.001, retry_on=RuntimeError)


def ask(state, text=None):
    return production_model().invoke(text or state["messages"])


def answers(state):
    return {"messages": [ask(state)]}


def once():
    """Fails the first time."""
    tries = []

    def fail():
        tries.append(1)
        if len(tries) == 1:
            raise RuntimeError("not yet")

    return fail


def says_whether(state):
    """Uses the reply only as a value, as a judge or a router does."""
    return {"messages": [("user", "yes" if ask(state).content else "no")]}


async def superseded(graph, *, replies="abcde", **options):
    """The superseded turns, and the replies that are trained."""
    agent = LangGraphAgent(graph, on_interrupt=lambda interrupts: "go on", **options)
    policy = art.ScriptedPolicy(list(replies))
    trajectory = await art.rollout(agent, art.Scenario("s", "Time?"), policy, limits=art.Limits(seconds=20))
    assert trajectory.error is None
    trained = {token for row in trajectory.samples() for token in row.token_ids[row.mask].tolist()}
    texts = {turn.reply.text for turn in trajectory.turns if set(turn.completion_ids) <= trained}
    return sorted(trajectory.superseded), sorted(texts)


def fails_after_its_call():
    fail = once()

    def node(state):
        reply = ask(state)
        fail()
        return {"messages": [reply]}

    return node


async def test_an_attempt_that_failed_after_its_call_is_superseded():
    assert await superseded(graph_of(fails_after_its_call(), retry_policy=AGAIN)) == (["t0"], ["b"])


async def test_another_question_in_the_second_attempt_changes_nothing():
    fail, tries = once(), []

    def node(state):
        tries.append(1)
        reply = ask(state, f"try {len(tries)}")
        fail()
        return {"messages": [("user", reply.content)]}

    assert await superseded(graph_of(node, retry_policy=AGAIN)) == (["t0"], ["b"])


async def test_a_whole_conversation_of_a_failed_attempt_is_superseded():
    fail = once()

    def node(state):
        first = ask(state)
        second = ask(state, [*state["messages"], first, ("user", "And?")])
        fail()
        return {"messages": [first, second]}

    assert await superseded(graph_of(node, retry_policy=AGAIN)) == (["t0", "t1"], ["c", "d"])


async def test_a_nested_graph_is_run_again_with_the_node_around_it():
    inner, fail = graph_of(answers), once()

    def node(state):
        messages = inner.invoke(state)["messages"]
        fail()
        return {"messages": messages[-1:]}

    assert await superseded(graph_of(node, retry_policy=AGAIN)) == (["t0"], ["b"])
    assert await superseded(graph_of(graph_of(fails_after_its_call()), retry_policy=AGAIN)) == (["t0"], ["b"])


def asks_before_it_stops(state):
    reply = ask(state)
    interrupt("ok?")
    return {"messages": [reply]}


async def test_a_node_that_is_resumed_asks_again_from_its_top():
    assert await superseded(graph_of(asks_before_it_stops, checkpointer=InMemorySaver())) == (["t0"], ["b"])


async def test_a_nested_graph_that_is_resumed_too():
    graph = graph_of(graph_of(asks_before_it_stops), checkpointer=InMemorySaver())
    assert await superseded(graph) == (["t0"], ["b"])


async def test_what_came_after_the_interrupt_is_kept():
    def node(state):
        first = ask(state)
        wish = interrupt("ok?")
        return {"messages": [first, ask(state, [*state["messages"], first, ("user", wish)])]}

    assert await superseded(graph_of(node, checkpointer=InMemorySaver())) == (["t0"], ["b", "c"])


async def test_a_nested_graph_that_had_ended_before_the_interrupt_is_remembered():
    inner = graph_of(answers)

    def node(state):
        text = inner.invoke(state)["messages"][-1].content
        interrupt("ok?")
        return {"messages": [("user", text)]}

    assert await superseded(graph_of(node, checkpointer=InMemorySaver())) == ([], ["a"])


async def test_tasks_that_had_ended_before_the_interrupt_are_remembered():
    @task
    def asked(text):
        return production_model().invoke(text).content

    @entrypoint(checkpointer=InMemorySaver())
    def flow(text):
        first = asked(text).result()
        interrupt("ok?")
        return first + asked("another").result()

    assert await superseded(flow) == ([], ["a", "b"])


async def test_a_chain_that_retries_itself_supersedes_its_first_attempt():
    fail = once()

    def check(message):
        fail()
        return message

    def node(state):
        chain = (production_model() | RunnableLambda(check)).with_retry(wait_exponential_jitter=False)
        return {"messages": [chain.invoke(state["messages"])]}

    assert await superseded(graph_of(node)) == (["t0"], ["b"])


def votes(state):
    replies = [ask(state) for _ in range(3)]
    return {"messages": [("user", max(reply.content for reply in replies))]}


def votes_though_one_fails(state):
    fail, texts = once(), []
    for _ in range(3):
        try:
            texts.append((production_model() | RunnableLambda(lambda m: fail() or m)).invoke(state["messages"]).content)
        except RuntimeError:
            continue
    return {"messages": [("user", max(texts))]}


@pytest.mark.parametrize("node", [votes, votes_though_one_fails])
async def test_three_samples_for_a_vote_are_all_kept(node):
    assert await superseded(graph_of(node)) == ([], ["a", "b", "c"])


async def test_the_same_question_in_several_places_is_asked_on_purpose():
    builder = StateGraph(Chat)
    builder.add_node("judge", says_whether)
    builder.add_node("again", says_whether)
    builder.add_node("many", lambda state: {"messages": [("user", ask(None, "same").content)]})
    builder.add_edge(START, "judge")
    builder.add_edge(START, "again")
    builder.add_conditional_edges("again", lambda state: [Send("many", state), Send("many", state)])
    builder.add_edge(["judge", "many"], END)
    assert await superseded(builder.compile()) == ([], ["a", "b", "c", "d"])


async def test_one_attempt_votes_and_the_next_one_too():
    fail = once()

    def node(state):
        texts = votes(state)
        fail()
        return texts

    graph = graph_of(node, retry_policy=AGAIN)
    assert await superseded(graph, replies="abcdef") == (["t0", "t1", "t2"], ["d", "e", "f"])


async def test_a_rollout_that_ends_by_a_limit_knows_too():
    trajectory = await art.rollout(
        LangGraphAgent(graph_of(fails_after_its_call(), retry_policy=AGAIN)),
        art.Scenario("s", "Time?"),
        art.ScriptedPolicy(["a", "b"]),
        limits=art.Limits(turns=1),
    )
    assert (trajectory.stop_reason, sorted(trajectory.superseded)) == ("max_turns", [])
    assert [turn.reply.text for turn in trajectory.turns] == ["a"]


async def test_attempts_that_all_fail_leave_the_last_one():
    def node(state):
        ask(state)
        raise RuntimeError("never")

    trajectory = await art.rollout(
        LangGraphAgent(graph_of(node, retry_policy=AGAIN)), art.Scenario("s", "Time?"), art.ScriptedPolicy(list("abc"))
    )
    assert (trajectory.stop_reason, sorted(trajectory.superseded)) == ("error", ["t0", "t1"])
