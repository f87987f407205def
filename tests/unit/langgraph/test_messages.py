"""The forms in which a graph hands messages to its model."""

from __future__ import annotations

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_ollama import ChatOllama

from .graphs import END, START, Chat, StateGraph, production_model
from .running import asked, run


def node(given, model=None):
    """A graph whose only node gives its model ``given``."""
    model = model or production_model()
    builder = StateGraph(Chat)
    builder.add_node("answer", lambda state: {"messages": [model.invoke(given)]})
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    return builder.compile()


@pytest.mark.parametrize(
    "given",
    [
        [SystemMessage("Be brief."), HumanMessage("Time?")],
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Time?"}],
        [("system", "Be brief."), ("human", "Time?")],
        [SystemMessage("Be brief."), HumanMessage([{"type": "text", "text": "Time?"}])],
    ],
    ids=["messages", "dicts", "tuples", "blocks"],
)
async def test_messages_in_any_form_are_the_same_request(given):
    trajectory = await run(node(given), ["Noon."])
    assert asked(trajectory) == [[("system", "Be brief."), ("user", "Time?")]]


async def test_a_plain_text_is_a_users_message():
    assert asked(await run(node("Time?"), ["Noon."])) == [[("user", "Time?")]]


@pytest.mark.parametrize(
    "model",
    [
        production_model(max_tokens=3),
        production_model().bind(max_tokens=3),
        ChatAnthropic(model="claude-sonnet-5", api_key="none", max_tokens=3),
        ChatOllama(model="qwen3", num_predict=3, validate_model_on_init=False),
    ],
    ids=["openai", "bound", "anthropic", "ollama"],
)
async def test_the_longest_reply_is_the_models_own(model):
    trajectory = await run(node("Count.", model), ["one two"])
    assert len(trajectory.turns[0].completion_ids) == 3
    assert trajectory.turns[0].finish_reason == "length"


@pytest.mark.parametrize(
    "model",
    [production_model(stop=["!"]), ChatAnthropic(model="claude-sonnet-5", api_key="none", stop_sequences=["!"])],
    ids=["openai", "anthropic"],
)
async def test_so_are_the_texts_that_end_it(model):
    trajectory = await run(node("Count.", model), ["one! two"])
    assert trajectory.turns[0].reply.text == "one"


async def test_how_to_sample_is_the_policys_and_what_was_asked_is_kept():
    trajectory = await run(node("Count.", production_model(temperature=0.2).bind(top_p=0.5)), ["one"])
    assert trajectory.turns[0].temperature == 1.0
    assert trajectory.turns[0].metadata["overridden"] == {"top_p": 0.5}


@pytest.mark.parametrize(
    "wrap",
    [
        lambda model: model.with_retry(),
        lambda model: model.with_fallbacks([production_model()]),
        lambda model: model.with_config(tags=["observed"]),
        lambda model: model | (lambda message: message),
    ],
    ids=["retry", "fallbacks", "config", "chain"],
)
async def test_a_wrapped_model_is_captured_like_a_plain_one(wrap):
    trajectory = await run(node("Time?", wrap(production_model())), ["Noon."])
    assert asked(trajectory) == [[("user", "Time?")]]
    assert trajectory.output["messages"][-1].content == "Noon."
