"""However a graph is run, and whether its model streams: the same turns."""

from __future__ import annotations

import pytest

import art_core as art
from art_core.rollout.current import bind
from art_core.rollout.session import Session
from art_integrations.langgraph import install

from .graphs import assistant, chatbot
from .running import run, said

ASK = {"messages": [{"role": "user", "content": "What time is it in Rome?"}]}
REPLIES = [[("get_time", {"city": "Rome"})], "It is noon — in Rome."]


async def drive(how, graph):
    install()
    policy = art.ScriptedPolicy(REPLIES)
    session = Session(policy, art.Scenario("s", ""), rollout_id="r")
    with bind(session):
        seen = await how(graph)
    return session.trajectory, seen


async def ainvoke(graph):
    return (await graph.ainvoke(ASK))["messages"][-1].content


async def astream_updates(graph):
    return [update async for update in graph.astream(ASK)][-1]["model"]["messages"][-1].content


async def astream_messages(graph):
    chunks = [
        chunk async for chunk, about in graph.astream(ASK, stream_mode="messages") if about["langgraph_node"] == "model"
    ]
    return "".join(chunk.text for chunk in chunks if type(chunk).__name__ == "AIMessageChunk")


async def astream_events(graph):
    events = [event async for event in graph.astream_events(ASK, version="v2")]
    streamed = [event["data"]["chunk"].text for event in events if event["event"] == "on_chat_model_stream"]
    return "".join(streamed)


@pytest.mark.parametrize("how", [ainvoke, astream_updates, astream_messages, astream_events])
async def test_every_way_to_run_a_graph_gives_the_same_turns(how):
    plain, _ = await drive(ainvoke, assistant())
    trajectory, seen = await drive(how, assistant())
    assert seen == "It is noon — in Rome."
    assert [turn.completion_ids for turn in trajectory.turns] == [turn.completion_ids for turn in plain.turns]
    assert [turn.context_ids for turn in trajectory.turns] == [turn.context_ids for turn in plain.turns]


async def test_a_streaming_model_says_the_same_as_one_that_does_not():
    one, other = [await run(chatbot(m), ["It is  noon,\n\n— «Rome» ."]) for m in _models()]
    assert said(one) == said(other)
    assert one.output["messages"][-1].content == other.output["messages"][-1].content


def _models():
    from .graphs import production_model

    return production_model(streaming=True), production_model()
