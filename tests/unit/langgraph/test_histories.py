"""Graphs that change their history: what was sampled is trained once, and every break is told with its reason."""

from __future__ import annotations

from langchain_core.messages import AIMessage, RemoveMessage, SystemMessage, trim_messages
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from tests.unit.rollout.reading import said

from .graphs import END, START, Chat, StateGraph, production_model
from .running import asked, forks, run


def conversation(prepare, *, rounds=3, edit=None):
    """A model that answers a user who asks ``rounds`` times; ``prepare`` makes the prompt, ``edit`` changes the state between."""
    model = production_model()

    def answer(state):
        return {"messages": [model.invoke(prepare(state["messages"]))]}

    def user(state):
        own = [] if edit is None else edit(state["messages"])
        return {"messages": [*own, {"role": "user", "content": f"Question {_answers(state) + 1}?"}]}

    builder = StateGraph(Chat)
    builder.add_node("answer", answer)
    builder.add_node("user", user)
    builder.add_edge(START, "answer")
    builder.add_conditional_edges("answer", lambda state: "user" if _answers(state) < rounds else END, ["user", END])
    builder.add_edge("user", "answer")
    return builder.compile()


def _answers(state):
    return sum(isinstance(message, AIMessage) for message in state["messages"])


REPLIES = ["One.", "Two.", "Three."]


async def test_a_history_that_only_grows_is_one_row():
    trajectory = await run(conversation(lambda messages: messages), REPLIES, "Question 1?")
    assert forks(trajectory) == [None, None, None]
    assert len(trajectory.samples()) == 1
    assert asked(trajectory)[2][-1] == ("user", "Question 3?")


async def test_a_trimmed_history_is_a_new_conversation_behind_the_same_system_prompt():
    def trim(messages):
        given = [SystemMessage("Count."), *messages]
        return trim_messages(
            given, max_tokens=4, token_counter=len, include_system=True, start_on="human", strategy="last"
        )

    trajectory = await run(conversation(trim), REPLIES, "Question 1?")
    assert said(trajectory) == REPLIES
    assert [len(request) for request in asked(trajectory)] == [2, 4, 4]
    assert forks(trajectory) == [None, None, "a new conversation"]
    assert trajectory.turns[2].parent_len >= len("system\nCount.")
    assert len(trajectory.samples()) == 2


async def test_a_request_without_the_last_answer_is_an_edited_history():
    model = production_model()

    def twice(state):
        model.invoke(state["messages"])
        second = model.invoke([*state["messages"], {"role": "user", "content": "Briefly."}])
        return {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), second]}

    builder = StateGraph(Chat)
    builder.add_node("twice", twice)
    builder.add_edge(START, "twice")
    builder.add_edge("twice", END)
    trajectory = await run(builder.compile(), ["It is noon.", "Noon."])
    assert forks(trajectory) == [None, "the history was edited"]
    assert asked(trajectory)[1][-1] == ("user", "Briefly.")
    assert trajectory.turns[1].parent == "t0"
    assert len(trajectory.samples()) == 2


async def test_a_summary_in_place_of_a_history_is_a_new_conversation():
    model = production_model()

    def answer(state):
        return {"messages": [model.invoke(state["messages"])]}

    def summarise(state):
        summary = model.invoke([*state["messages"], {"role": "user", "content": "Sum up."}])
        return {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), ("system", summary.content), ("user", "And now?")]}

    builder = StateGraph(Chat)
    builder.add_node("answer", answer)
    builder.add_node("summarise", summarise)
    builder.add_node("again", answer)
    for one, two in ((START, "answer"), ("answer", "summarise"), ("summarise", "again"), ("again", END)):
        builder.add_edge(one, two)
    trajectory = await run(builder.compile(), ["Noon.", "It was noon.", "Later."])
    assert asked(trajectory)[2] == [("system", "It was noon."), ("user", "And now?")]
    assert forks(trajectory) == [None, None, "a new conversation"]
    assert len(trajectory.samples()) == 2


async def test_an_edited_answer_is_context_and_the_sampled_one_is_trained_once():
    def redact(messages):
        return [AIMessage("[redacted]", id=messages[-1].id)]

    trajectory = await run(
        conversation(lambda messages: messages, rounds=2, edit=redact), ["My name is Ada.", "Two."], "Question 1?"
    )
    assert said(trajectory) == ["My name is Ada.", "Two."]
    assert asked(trajectory)[1] == [("user", "Question 1?"), ("assistant", "[redacted]"), ("user", "Question 2?")]
    assert forks(trajectory) == [None, "the history was edited"]
    first, second = trajectory.samples()
    begin = len(trajectory.turns[0].context_ids)
    assert first.token_ids[:begin].tolist() == second.token_ids[:begin].tolist()
    assert not second.mask[:begin].any()
    assert int(first.mask.sum()) == len(trajectory.turns[0].completion_ids)
    assert int(second.mask.sum()) == len(trajectory.turns[1].completion_ids)


async def test_an_answer_that_is_edited_at_its_end_shares_what_was_sampled_before():
    def shout(messages):
        return [AIMessage("One!", id=messages[-1].id)]

    trajectory = await run(conversation(lambda messages: messages, rounds=2, edit=shout), ["One.", "Two."])
    assert trajectory.turns[1].parent_len == len(trajectory.turns[0].context_ids) + len("One")
    assert sum(int(sample.mask.sum()) for sample in trajectory.samples()) == trajectory.sampled_tokens


async def test_an_answer_that_a_node_put_there_is_never_trained():
    def canned(state):
        return {"messages": [AIMessage("Welcome."), ("user", "Time?")]}

    model = production_model()
    builder = StateGraph(Chat)
    builder.add_node("canned", canned)
    builder.add_node("answer", lambda state: {"messages": [model.invoke(state["messages"])]})
    for one, two in ((START, "canned"), ("canned", "answer"), ("answer", END)):
        builder.add_edge(one, two)
    trajectory = await run(builder.compile(), ["Noon."], "Hello")
    assert asked(trajectory) == [[("user", "Hello"), ("assistant", "Welcome."), ("user", "Time?")]]
    assert said(trajectory) == ["Noon."]
    (sample,) = trajectory.samples()
    assert int(sample.mask.sum()) == len(trajectory.turns[0].completion_ids)


async def test_thinking_that_the_client_drops_stays_as_it_was_sampled():
    replies = ["<think>\nhm\n</think>\n\nOne.", "<think>\nwell\n</think>\n\nTwo."]
    trajectory = await run(conversation(lambda messages: messages, rounds=2), replies, "Question 1?")
    assert said(trajectory) == replies
    assert trajectory.output["messages"][1].content == "One."
    assert forks(trajectory) == [None, None]
    assert len(trajectory.samples()) == 1
