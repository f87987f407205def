"""However a graph is run, and whether its model streams: the same turns, and the same bytes for whoever listens."""

from __future__ import annotations

import asyncio
from functools import reduce
from operator import add

import pytest

from tests.unit.rollout.reading import said

from .graphs import assistant, chatbot, get_time, production_model
from .running import drive, run
from .test_structured import ROME, extractor

pytestmark = pytest.mark.filterwarnings("ignore:.*(in beta|is experimental)")
ASK = {"messages": [{"role": "user", "content": "What time is it in Rome?"}]}
REPLIES = [[("get_time", {"city": "Rome"})], "It is noon — in Rome."]


async def ainvoke(graph):
    return (await graph.ainvoke(ASK))["messages"][-1].content


async def invoke(graph):
    return (await asyncio.to_thread(graph.invoke, ASK))["messages"][-1].content


async def batch(graph):
    return (await asyncio.to_thread(graph.batch, [ASK]))[0]["messages"][-1].content


async def stream_updates(graph):
    return (await asyncio.to_thread(lambda: list(graph.stream(ASK))))[-1]["model"]["messages"][-1].content


async def stream_values(graph):
    states = await asyncio.to_thread(lambda: list(graph.stream(ASK, stream_mode="values")))
    return states[-1]["messages"][-1].content


async def stream_messages(graph):
    return _text(await asyncio.to_thread(lambda: list(graph.stream(ASK, stream_mode="messages"))))


async def astream_updates(graph):
    return [update async for update in graph.astream(ASK)][-1]["model"]["messages"][-1].content


async def astream_messages(graph):
    return _text([part async for part in graph.astream(ASK, stream_mode="messages")])


async def astream_both(graph):
    modes = ["messages", "updates"]
    parts = [part async for mode, part in graph.astream(ASK, stream_mode=modes) if mode == "messages"]
    return _text(parts)


def _text(parts):
    return "".join(chunk.text for chunk, _ in parts if type(chunk).__name__ == "AIMessageChunk")


async def astream_events_v2(graph):
    events = [event async for event in graph.astream_events(ASK, version="v2")]
    return "".join(event["data"]["chunk"].text for event in events if event["event"] == "on_chat_model_stream")


async def astream_events_v3(graph):
    run = await graph.astream_events(ASK, version="v3")
    texts = [await message.text async for message in run.messages]
    return texts[-1]


async def stream_events_v3(graph):
    return await asyncio.to_thread(
        lambda: [str(message.text) for message in graph.stream_events(ASK, version="v3").messages][-1]
    )


WAYS = [
    *(ainvoke, invoke, batch, stream_updates, stream_values, stream_messages),
    *(astream_updates, astream_messages, astream_both, astream_events_v2, astream_events_v3, stream_events_v3),
]


@pytest.mark.parametrize("how", WAYS)
async def test_every_way_to_run_a_graph_gives_the_same_turns(how):
    plain, _ = await drive(lambda: ainvoke(assistant()), REPLIES)
    trajectory, seen = await drive(lambda: how(assistant()), REPLIES)
    assert seen == "It is noon — in Rome."
    assert [turn.completion_ids for turn in trajectory.turns] == [turn.completion_ids for turn in plain.turns]
    assert [turn.context_ids for turn in trajectory.turns] == [turn.context_ids for turn in plain.turns]
    assert len(trajectory.samples()) == 1


TEXTS = {
    "spaces": "It is  noon,\n\n— «Rome» .",
    "edges": "\n  noon \t\n ",
    "joined letters": "👩‍👩‍👧 é ﷽ 🇮🇹",
    "lines": "a\r\nb\x0bc\u2028d",
    "nothing": "",
    "thinking": "<think>\nhm\n</think>\n\nNoon.",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
async def test_a_streaming_model_says_byte_for_byte_what_one_says_that_does_not(text):
    one, other = [await run(chatbot(production_model(streaming=s)), [text]) for s in (True, False)]
    assert said(one) == said(other) == [text]
    first, second = (t.output["messages"][-1] for t in (one, other))
    assert first.content == second.content == one.turns[0].reply.text
    assert (first.id, first.usage_metadata) == (second.id, second.usage_metadata)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
async def test_the_chunks_of_a_model_are_its_message(text):
    async def chunks():
        return [chunk async for chunk in production_model().astream("Time?")]

    trajectory, seen = await drive(chunks, [text])
    assert reduce(add, seen).content == trajectory.turns[0].reply.text
    assert reduce(add, seen).id == "t0"


ARGUMENTS = ["{}", '{"city": "Zürich — «x»"}', '{"city": "a\\"b\\\\n"}', '{"n": 1.50, "deep": {"list": [1, null]}}']


@pytest.mark.parametrize("arguments", ARGUMENTS)
async def test_the_tool_calls_of_a_streaming_model_are_those_of_one_that_does_not(arguments):
    written = f'Let me see.\n<tool_call>\n{{"name": "get_time", "arguments": {arguments}}}\n</tool_call>'
    graphs = [chatbot(production_model(streaming=s).bind_tools([get_time])) for s in (True, False)]
    one, other = [await run(graph, [written]) for graph in graphs]
    assert said(one) == said(other) == [written]
    first, second = (t.output["messages"][-1] for t in (one, other))
    assert (first.content, first.tool_calls) == (second.content, second.tool_calls)
    assert len(first.tool_calls) == 1


@pytest.mark.parametrize("streaming", [True, False])
async def test_structured_output_is_the_same_streamed_or_not(streaming):
    json = '{"name": "Rome", "people": 2746984}'
    trajectory = await run(extractor(production_model(streaming=streaming), method="json_schema"), [json])
    assert trajectory.output["city"] == ROME
    assert said(trajectory) == [json]
