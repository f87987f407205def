"""What the agent's own models are asked and say is recorded, over real HTTP, whichever way they are called."""

from __future__ import annotations

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

import art_core as art
from art_core.inference.original import OriginalPolicy
from art_integrations.langgraph import LangGraphAgent
from tests.servers.chat_server import call, chat_server

from .graphs import get_time
from .test_hook import graph_of


class Answer(BaseModel):
    """The time."""

    hour: int


@pytest.fixture
def service():
    with chat_server(lambda body: "Noon.") as server:
        yield server


def model_at(server, **options):
    return ChatOpenAI(model="gpt-5-mini", base_url=server.url, api_key="k", max_retries=0, stream_usage=True, **options)


async def rollout(agent, *, limits=None, question="Time?"):
    limits = limits or art.Limits(seconds=20)
    return await art.rollout(agent, art.Scenario("s", question), OriginalPolicy(), limits=limits)


async def calls_of(ask):
    """What is recorded of a rollout whose only node does ``await ask(messages)``."""

    async def node(state):
        await ask(state["messages"])
        return {}

    trajectory = await rollout(LangGraphAgent(graph_of(node)))
    assert trajectory.metrics["environment_model_calls"] == len(trajectory.model_calls)
    return trajectory.model_calls


def told(call):
    return [(m.role, m.text) for m in call.messages], call.reply and call.reply.text


async def _astream(model, messages):
    return [chunk async for chunk in model.astream(messages)]


async def _astream_v3(model, messages):
    async for _ in await model.astream_events(messages, version="v3"):
        pass


WAYS = {
    "invoke": lambda model, messages: _now(model.invoke(messages)),
    "ainvoke": lambda model, messages: model.ainvoke(messages),
    "stream": lambda model, messages: _now(list(model.stream(messages))),
    "astream": _astream,
    "stream v3": lambda model, messages: _now(list(model.stream_events(messages, version="v3"))),
    "astream v3": _astream_v3,
}


async def _now(value):
    return value


@pytest.mark.parametrize("way", WAYS)
async def test_a_call_is_recorded_once_with_its_tokens(way, service):
    model = model_at(service)
    (one,) = await calls_of(lambda messages: WAYS[way](model, messages))
    assert told(one) == ([("user", "Time?")], "Noon.")
    assert (one.input_tokens, one.output_tokens, one.error) == (11, 3, None)
    assert (one.metadata["model"], one.metadata["node"]) == ("gpt-5-mini", "node")
    assert 0 < one.started_s <= one.ended_s


async def test_a_batch_is_a_call_for_each(service):
    model = model_at(service)
    calls = await calls_of(lambda messages: model.abatch(["one?", "two?"]))
    assert sorted(call.messages[0].text for call in calls) == ["one?", "two?"]


async def test_prompts_that_are_answered_together_are_a_call_each():
    model = FakeListChatModel(responses=["a", "b"])
    calls = await calls_of(lambda messages: model.agenerate([messages, messages]))
    assert [told(call) for call in calls] == [([("user", "Time?")], "a"), ([("user", "Time?")], "b")]
    assert (calls[0].input_tokens, calls[0].output_tokens) == (None, None)


@pytest.mark.parametrize("way", ["stream", "astream"])
async def test_a_model_that_cannot_stream_is_recorded_once(way):
    class Whole(FakeListChatModel):
        disable_streaming: bool = True

    model = Whole(responses=["whole"])
    (one,) = await calls_of(lambda messages: WAYS[way](model, messages))
    assert told(one) == ([("user", "Time?")], "whole")


async def test_an_agents_calls_keep_the_providers_call_ids_and_the_tools():
    def answer(body):
        return "It is noon." if body["messages"][-1]["role"] == "tool" else call("get_time", city="Rome")

    with chat_server(answer) as server:
        graph = create_agent(model_at(server), [get_time], system_prompt="Be brief.")
        trajectory = await rollout(LangGraphAgent(graph))
    first, second = trajectory.model_calls
    assert [message.role for message in second.messages] == ["system", "user", "assistant", "tool"]
    assert second.messages[:2] == first.messages
    assert second.messages[2] == first.reply
    assert first.reply.tool_calls[0].id == second.messages[3].tool_call_id == "call_7"
    assert [tool.name for tool in first.tools] == ["get_time"]
    assert trajectory.output["messages"][-1].content == "It is noon."
    assert trajectory.messages == [*second.messages, second.reply]
    assert trajectory.turns == []


async def test_structured_output_is_recorded_as_it_was_said():
    with chat_server(lambda body: '{"hour": 12}') as server:
        model = model_at(server).with_structured_output(Answer)
        (one,) = await calls_of(model.ainvoke)
    assert one.reply.text == '{"hour": 12}'


async def test_a_call_that_fails_is_recorded_with_its_error():
    with chat_server(lambda body: 500) as server:
        trajectory = await rollout(
            LangGraphAgent(graph_of(lambda state: {"messages": [model_at(server).invoke("Time?")]}))
        )
    (one,) = trajectory.model_calls
    assert one.reply is None
    assert "scripted failure" in one.error
    assert trajectory.stop_reason == "error"


async def test_a_stream_that_is_left_is_recorded_with_what_was_read(service):
    def node(state):
        for _ in zip(range(2), model_at(service).stream("Time?"), strict=False):
            pass
        return {}

    trajectory = await rollout(LangGraphAgent(graph_of(node)))
    (one,) = trajectory.model_calls
    assert (one.reply.text, one.error) == ("No", "the stream was not read to its end")


async def test_arguments_that_are_no_json_are_kept_as_they_were_written():
    wrong = {"name": "get_time", "arguments": "{city: Rome"}
    message = {"content": None, "tool_calls": [{"id": "c", "type": "function", "function": wrong}]}
    with chat_server(lambda body: message) as server:
        (one,) = await calls_of(model_at(server).bind_tools([get_time]).ainvoke)
    assert one.reply.tool_calls == ()
    assert one.reply.malformed_calls[0].raw == "get_time({city: Rome)"


async def test_a_tool_of_the_providers_own_is_named_apart(service):
    model = model_at(service).bind(tools=[{"type": "web_search"}])
    (one,) = await calls_of(model.ainvoke)
    assert (one.tools, one.metadata["provider_tools"]) == ((), ["{'type': 'web_search'}"])


async def test_a_model_that_is_not_trained_is_recorded_beside_the_turns(service):
    def node(state):
        model_at(service, name="judge").invoke(state["messages"])
        return {}

    agent = LangGraphAgent(graph_of(node), train="nobody")
    trajectory = await art.rollout(agent, art.Scenario("s", "Time?"), art.ScriptedPolicy([]))
    assert told(trajectory.model_calls[0]) == ([("user", "Time?")], "Noon.")


@pytest.mark.parametrize(("limit", "calls"), [({"turns": 2}, 2), ({"tokens": 4}, 2)])
async def test_limits_hold_for_the_agents_own_models(limit, calls):
    with chat_server(lambda body: call("get_time", city="Rome")) as server:
        graph = create_agent(model_at(server), [get_time])
        trajectory = await rollout(LangGraphAgent(graph), limits=art.Limits(seconds=20, **limit))
    assert len(trajectory.model_calls) == calls
    assert trajectory.stop_reason == f"max_{next(iter(limit))}"


async def test_what_is_recorded_is_what_the_model_in_training_will_be_asked():
    """So a warm start learns from exactly the prompts of the training after it."""

    def answer(body):
        return "It is noon." if body["messages"][-1]["role"] == "tool" else call("get_time", city="Rome")

    with chat_server(answer) as server:
        graph = create_agent(model_at(server), [get_time], system_prompt="Be brief.")
        recorded = await rollout(LangGraphAgent(graph))
    replies = art.ScriptedPolicy([[("get_time", {"city": "Rome"})], "It is noon."])
    trained = await art.rollout(LangGraphAgent(graph), art.Scenario("s", "Time?"), replies)
    renderer = replies.renderer
    for own, turn in zip(recorded.model_calls, trained.turns, strict=True):
        *asked, _ = trained.graph.history(turn.id)
        assert renderer.prompt(own.messages, own.tools) == renderer.prompt(asked, turn.tools)
