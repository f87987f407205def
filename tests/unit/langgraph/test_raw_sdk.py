"""Nodes that call the ``openai`` SDK themselves are captured like those that call a chat model."""

from __future__ import annotations

import pytest
from openai import OpenAI

from tests.unit.openai_sdk.service import service
from tests.unit.rollout.reading import said

from .graphs import END, NOWHERE, START, Chat, StateGraph, production_model
from .running import run


def ask(options, text):
    messages = [{"role": "user", "content": text}]
    return OpenAI(**options).chat.completions.create(model="gpt-5-mini", messages=messages).choices[0].message.content


def two_nodes(writer, critic):
    """A node ``writer`` and then a node ``critic``, each a function of a text that answers one."""
    builder = StateGraph(Chat)
    for name, function in (("writer", writer), ("critic", critic)):
        builder.add_node(name, lambda state, say=function: {"messages": [say(state["messages"][-1].content)]})
    builder.add_edge(START, "writer")
    builder.add_edge("writer", "critic")
    builder.add_edge("critic", END)
    return builder.compile()


async def test_a_raw_call_is_a_turn_that_knows_its_node():
    graph = two_nodes(lambda text: ask(NOWHERE, text), lambda text: ask(NOWHERE, text))
    trajectory = await run(graph, ["Noon.", "Fine."])
    assert said(trajectory) == ["Noon.", "Fine."]
    calls = [turn.metadata["call"] for turn in trajectory.turns]
    assert [(call["provider"], call["node"], call["step"]) for call in calls] == [
        ("OpenAI", "writer", 1),
        ("OpenAI", "critic", 2),
    ]


async def test_a_node_that_is_not_trained_asks_its_service():
    with service() as options:
        graph = two_nodes(lambda text: ask(NOWHERE, text), lambda text: ask(options, text))
        trajectory = await run(graph, ["Noon."], train="writer")
    assert said(trajectory) == ["Noon."]
    assert [(call.reply.text, call.metadata["node"]) for call in trajectory.model_calls] == [("Fair.", "critic")]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_chat_model_that_answers_itself_is_not_captured_below(stream):
    """The node's name selects; the model's own requests, which have none, are not asked about."""

    def critic(text):
        model = production_model(**options)
        return "".join(c.content for c in model.stream(text)) if stream else model.invoke(text).content

    with service() as options:
        graph = two_nodes(lambda text: ask(NOWHERE, text), critic)
        trajectory = await run(graph, ["Noon."], train=lambda about: about["provider"] == "OpenAI")
    assert said(trajectory) == ["Noon."]
    assert trajectory.output["messages"][-1].content == "Fair."
    assert trajectory.metrics["environment_model_calls"] == 1
