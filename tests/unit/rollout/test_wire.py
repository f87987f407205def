import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from art_core.errors import InputError, LimitReached, ProviderError
from art_core.messages import MalformedCall, Message, ToolCall
from art_core.rollout import wire
from art_core.rollout.limits import Limits
from art_core.rollout.session import Session
from art_core.trajectory.graph import Turn

from .doubles import ADD, CALL, TASK, USER, BytesPolicy


def session(reply="ok", **fields) -> Session:
    return Session(BytesPolicy(reply, **fields), TASK, rollout_id="r1", limits=Limits())


def body(**fields):
    return {"model": "m", "messages": [USER], **fields}


def payloads(response: wire.Response) -> list:
    lines = b"".join(response.events()).decode().split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


async def test_a_plain_answer_is_one_json_body() -> None:
    response = await wire.handle(session(), body())
    assert (response.status, response.content_type) == (200, "application/json")
    assert json.loads(b"".join(response.events())) == response.body
    assert response.body["object"] == "chat.completion"


@pytest.mark.parametrize(("asked", "told"), [(True, True), (False, False)])
async def test_logprobs_may_be_left_to_those_who_ask_for_them(asked, told) -> None:
    response = await wire.handle(session(), body(logprobs=asked), logprobs=False)
    assert (response.body["choices"][0]["logprobs"] is not None) == told


async def test_a_stream_is_server_sent_events() -> None:
    response = await wire.handle(session(), body(stream=True))
    assert response.content_type == "text/event-stream"
    chunks = payloads(response)
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, "stop"]


async def test_usage_is_streamed_when_asked_for() -> None:
    response = await wire.handle(session("ok"), body(stream=True, stream_options={"include_usage": True}))
    chunks = payloads(response)
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"] == {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}
    assert all(chunk["usage"] is None for chunk in chunks[:-1])


async def test_ids_and_logprobs_come_once_with_the_first_chunk() -> None:
    first, *rest = payloads(await wire.handle(session("one two"), body(stream=True)))
    assert first["prompt_token_ids"] == [104, 105]
    assert first["choices"][0]["token_ids"] == [*b"one two", 0]
    assert len(first["choices"][0]["logprobs"]["content"]) == 8
    assert first["choices"][0]["delta"]["id"] == first["choices"][0]["turn_id"]
    assert not any("token_ids" in chunk["choices"][0] or "id" in chunk["choices"][0]["delta"] for chunk in rest)


def reply(content, calls, reasoning) -> Message:
    tool_calls = tuple(ToolCall(id=f"c{i}", name=name, arguments="{}") for i, name in enumerate(calls))
    return Message(role="assistant", content=content, tool_calls=tool_calls, reasoning=reasoning)


@given(
    st.builds(reply, st.none() | st.text(), st.lists(st.text(min_size=1), max_size=3), st.none() | st.text(min_size=1))
)
async def test_the_stream_says_what_the_plain_answer_says(message) -> None:
    plain = (await wire.handle(session(message), body())).body["choices"][0]
    content, reasoning, calls = "", None, []
    for chunk in payloads(await wire.handle(session(message), body(stream=True))):
        delta = chunk["choices"][0]["delta"]
        content += delta.get("content", "")
        reasoning = delta.get("reasoning_content", reasoning)
        calls += delta.get("tool_calls", [])
    assert content == (plain["message"]["content"] or "")
    assert reasoning == plain["message"].get("reasoning_content")
    assert [call.pop("index") for call in calls] == list(range(len(calls)))
    assert calls == plain["message"].get("tool_calls", [])
    assert chunk["choices"][0]["finish_reason"] == plain["finish_reason"]


async def test_the_sdk_streams_content_and_tool_calls() -> None:
    s = session(CALL)
    async with s.openai.chat.completions.stream(model="m", messages=[USER], tools=[ADD]) as stream:
        completion = await stream.get_final_completion()
    call = completion.choices[0].message.tool_calls[0]
    assert (call.id, call.function.name, call.function.arguments) == ("c1", "add", '{"a": 1}')
    assert completion.choices[0].finish_reason == "tool_calls"
    assert len(s.trajectory.turns) == 1


async def test_the_sdk_streams_words() -> None:
    stream = await session("one two three").openai.chat.completions.create(**body(stream=True))
    pieces = [chunk.choices[0].delta.content async for chunk in stream]
    assert pieces == ["", "one ", "two ", "three", None]


@pytest.mark.parametrize(("reason", "expected"), [("stop", "stop"), ("length", "length"), ("abort", "length")])
async def test_finish_reasons(reason, expected) -> None:
    response = await wire.handle(session("ok", finish_reason=reason), body())
    assert response.body["choices"][0]["finish_reason"] == expected


async def test_a_malformed_call_is_told_beside_the_message() -> None:
    message = Message(role="assistant", malformed_calls=(MalformedCall(raw="<x>", error="no name"),))
    choice = (await wire.handle(session(message), body())).body["choices"][0]
    assert choice["malformed_calls"] == [{"raw": "<x>", "error": "no name"}]
    assert (choice["finish_reason"], "tool_calls" in choice["message"]) == ("stop", False)


async def test_a_logprob_json_cannot_hold_is_very_low_and_stays_exact_inside() -> None:
    class Broken(BytesPolicy):
        async def complete(self, session, messages, tools, params):
            return Turn(
                id="t0", context_ids=(1,), completion_ids=(2,), logprobs=(math.nan,), reply=Message(role="assistant")
            )

    s = Session(Broken(), TASK, rollout_id="r1")
    answer = (await wire.handle(s, body())).body
    assert answer["choices"][0]["logprobs"]["content"][0]["logprob"] == -9999.0
    assert math.isnan(s.trajectory.turns[0].logprobs[0])


async def test_a_turn_without_logprobs_has_none_on_the_wire() -> None:
    class Hosted(BytesPolicy):
        async def complete(self, session, messages, tools, params):
            return Turn(id="t0", context_ids=(), completion_ids=(), logprobs=None, reply=Message(role="assistant"))

    choice = (await wire.handle(Session(Hosted(), TASK, rollout_id="r1"), body())).body["choices"][0]
    assert (choice["logprobs"], choice["token_ids"], choice["version"]) == (None, [], None)


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"{", "is not JSON"),
        (b"[1]", "must be a JSON object"),
        (b"\xff", "is not JSON"),
        (body(messages=[]), "messages must be a list of at least one message"),
        (body(messages="hi"), "messages must be a list"),
        (body(messages=[{"content": "hi"}]), r"messages\[0\]: a message must be an object with a role"),
        (body(messages=["hi"]), r"messages\[0\] must be an object"),
        (body(tools={"type": "function"}), "tools must be a list"),
        (body(tools=[{"type": "retrieval"}]), r"tools\[0\]: tool 'retrieval' is not a function tool"),
        (body(tool_choice="any"), "tool_choice 'any' is not auto"),
        (body(tool_choice="required"), "no tools are offered"),
        (body(tools=[ADD], tool_choice={"type": "function", "function": {"name": "sub"}}), "names 'sub'"),
        (body(stop=[""]), "stop must be a text or a list of texts"),
        (body(stop=7), "stop must be a text or a list of texts"),
        (body(n=3), "n must be 1"),
        (body(max_tokens=0), "max_tokens must be a whole number"),
    ],
)
async def test_bad_requests_are_400_with_the_reason(payload, text) -> None:
    response = await wire.handle(session(), payload)
    assert (response.status, response.body["error"]["type"]) == (400, "invalid_request_error")
    with pytest.raises(InputError, match=text):
        raise InputError(response.body["error"]["message"])


@pytest.mark.parametrize(
    ("error", "status", "kind", "code"),
    [
        (InputError("x"), 400, "invalid_request_error", None),
        (LimitReached("max_turns", "x"), 400, "rollout_limit", "max_turns"),
        (ProviderError("x"), 500, "provider_error", None),
    ],
)
def test_error_bodies(error, status, kind, code) -> None:
    response = wire.error_response(error)
    assert response.status == status
    assert response.body == {"error": {"message": "x", "type": kind, "param": None, "code": code}}


def test_what_says_nothing_about_sampling_stays_out_of_the_params() -> None:
    request = wire.request(body(user="u", stream=False, logprobs=True, temperature=0.5, stop="x", seed=None))
    assert request.params == {"temperature": 0.5, "stop": ("x",)}
