"""Calls and nodes that fail, are tried again, or fall back; and rollouts that end in the middle."""

from __future__ import annotations

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langgraph.types import RetryPolicy

import art_core as art
from tests.unit.rollout.reading import said

from .graphs import START, Chat, StateGraph, assistant, graph_of, production_model
from .running import asked, forks, run

AGAIN = RetryPolicy(initial_interval=0, jitter=False, max_attempts=3)


def flaky(failures, *, before=False):
    """A node that raises ``failures`` times, before or after it asked its model."""
    left = [ConnectionError("lost")] * failures

    def node(state):
        if before and left:
            raise left.pop()
        answer = production_model().invoke(state["messages"])
        if left:
            raise left.pop()
        return {"messages": [answer]}

    return node


async def test_a_node_that_is_run_again_samples_again_and_says_so():
    trajectory = await run(graph_of(flaky(1), retry_policy=AGAIN), ["One.", "Two."])
    assert said(trajectory) == ["One.", "Two."]
    assert [turn.metadata["call"]["attempt"] for turn in trajectory.turns] == [1, 2]
    assert forks(trajectory) == [None, "the same request again"]
    assert trajectory.turns[1].context_ids == ()
    assert trajectory.output["messages"][-1].id == trajectory.turns[1].id


async def test_a_node_that_fails_before_it_asks_is_one_turn():
    trajectory = await run(graph_of(flaky(2, before=True), retry_policy=AGAIN), ["One."])
    assert said(trajectory) == ["One."]
    assert trajectory.turns[0].metadata["call"]["attempt"] == 3


async def test_a_policy_that_failed_is_asked_again_by_with_retry():
    model = production_model().with_retry(wait_exponential_jitter=False, stop_after_attempt=2)
    trajectory = await run(
        graph_of(lambda state: {"messages": [model.invoke(state["messages"])]}), [RuntimeError("busy"), "Noon."]
    )
    assert said(trajectory) == ["Noon."]
    assert trajectory.metrics["provider_errors"] == 1


async def test_a_policy_that_failed_is_replaced_by_the_fallback_which_is_the_policy_too():
    model = production_model().with_fallbacks([production_model(model="gpt-5-nano")])
    trajectory = await run(
        graph_of(lambda state: {"messages": [model.invoke(state["messages"])]}), [RuntimeError("busy"), "Noon."]
    )
    assert said(trajectory) == ["Noon."]
    assert trajectory.turns[0].metadata["call"]["model"] == "gpt-5-nano"


async def test_a_fallback_that_is_not_trained_answers_itself_and_is_told():
    model = production_model().with_fallbacks([FakeListChatModel(responses=["Ask a watchmaker."])])
    trajectory = await run(
        graph_of(lambda state: {"messages": [model.invoke(state["messages"])]}),
        [RuntimeError("busy")],
        train="gpt-5-mini",
    )
    assert trajectory.turns == []
    assert trajectory.output["messages"][-1].content == "Ask a watchmaker."
    assert trajectory.metrics == {"provider_errors": 1, "environment_model_calls": 1}


CALL = [("get_time", {"city": "Rome"})]


@pytest.mark.parametrize("failing", [1, 2, 3])
async def test_a_policy_that_fails_on_turn_n_leaves_the_turns_before_it(failing):
    replies = [CALL] * (failing - 1) + [RuntimeError("out of memory")]
    trajectory = await run(assistant(), replies)
    assert len(trajectory.turns) == failing - 1
    assert trajectory.stop_reason == "error"
    assert trajectory.error.startswith("provider: ")
    assert "out of memory" in trajectory.error
    assert forks(trajectory) == [None] * (failing - 1)


async def test_a_node_that_raises_on_turn_n_leaves_the_turns_before_it():
    def node(state):
        if len(state["messages"]) > 4:
            raise ValueError("too long")
        return {"messages": [production_model().invoke(state["messages"]), ("user", "And?")]}

    builder = StateGraph(Chat)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_edge("node", "node")
    trajectory = await run(builder.compile(), ["One.", "Two.", "never"])
    assert trajectory.error == "agent: ValueError: too long"
    assert said(trajectory) == ["One.", "Two."]
    assert len(trajectory.samples()) == 1


async def test_a_limit_that_is_reached_on_turn_n_is_no_error():
    trajectory = await run(assistant(), [CALL] * 9, limits=art.Limits(turns=2))
    assert (trajectory.stop_reason, trajectory.error) == ("max_turns", None)
    assert len(trajectory.turns) == 2
    assert len(trajectory.samples()) == 1


async def test_a_reply_that_is_cut_is_context_of_the_next():
    model = production_model(max_tokens=3)

    def node(state):
        first = model.invoke(state["messages"])
        return {"messages": [first, model.invoke([*state["messages"], first, ("user", "Go on.")])]}

    trajectory = await run(graph_of(node), ["one two", "two"], "Count.")
    assert [turn.finish_reason for turn in trajectory.turns] == ["length", "length"]
    assert asked(trajectory)[1] == [("user", "Count."), ("assistant", "one"), ("user", "Go on.")]
    assert forks(trajectory) == [None, None]
