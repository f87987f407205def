import asyncio
import threading

import openai
import pytest
from openai.types.chat import ChatCompletion

from art_core.errors import InputError, LimitReached, ProviderError
from art_core.messages import Message, ToolSpec
from art_core.rollout.limits import Limits
from art_core.rollout.session import Session
from art_core.trajectory.trajectory import ToolEvent

from .doubles import ADD, CALL, TASK, USER, BytesPolicy, until

EVENT = ToolEvent(turn="t0", call_id="c1", name="add", arguments={}, result="2")


def session(policy=None, **limits) -> Session:
    return Session(policy or BytesPolicy(), TASK, rollout_id="r1", limits=Limits(**limits))


async def test_chat_gives_a_chat_completion_with_ids_logprobs_version_and_turn() -> None:
    completion = await session(BytesPolicy("ok")).chat([USER])
    choice = completion.choices[0]
    assert isinstance(completion, ChatCompletion)
    assert (choice.message.content, choice.finish_reason) == ("ok", "stop")
    assert (choice.prompt_token_ids, choice.token_ids) == ([104, 105], [111, 107, 0])
    assert completion.prompt_token_ids == [104, 105]
    assert (choice.version, choice.turn_id) == ("default@3", choice.message.id)
    first = choice.logprobs.content[0]
    assert (first.token, first.logprob) == ("token_id:111", -0.5)


async def test_chat_fills_usage() -> None:
    usage = (await session(BytesPolicy("ok")).chat([USER])).usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (2, 3, 5)


async def test_chat_takes_messages_tools_and_sdk_objects() -> None:
    s = session(BytesPolicy(CALL))
    answer = (await s.chat([Message(role="user", content="hi")], tools=[ToolSpec(name="add")])).choices[0]
    assert (answer.finish_reason, answer.message.tool_calls[0].function.name) == ("tool_calls", "add")
    await s.chat([USER, answer.message, {"role": "tool", "tool_call_id": "c1", "content": "2"}], tools=[ADD])
    assert s.trajectory.turns[1].messages[1].tool_calls == CALL.tool_calls


async def test_the_turn_is_recorded_with_its_times() -> None:
    s = session(BytesPolicy(delay=0.02))
    turn = await s.turn([Message(role="user", content="hi")])
    assert s.trajectory.turns == [turn]
    assert 0 <= turn.started_s < turn.ended_s


async def test_tool_choice_reaches_the_policy_only_when_given() -> None:
    s = session(policy := BytesPolicy())
    await s.chat([USER], tools=[ADD])
    await s.chat([USER], tools=[ADD], tool_choice="required")
    assert [params.get("tool_choice") for params in policy.params] == [None, "required"]
    assert "tool_choice" not in policy.params[0]


async def test_what_is_left_of_the_tokens_caps_the_next_turn() -> None:
    s = session(policy := BytesPolicy("ok"), tokens=7)
    await s.chat([USER], max_tokens=5)
    await s.chat([USER], max_completion_tokens=5)
    assert [params["max_tokens"] for params in policy.params] == [5, 4]
    await s.chat([USER])
    assert policy.params[2]["max_tokens"] == 1


async def test_used_up_tokens_end_the_rollout() -> None:
    s = session(BytesPolicy("ok"), tokens=3)
    await s.chat([USER])
    with pytest.raises(LimitReached, match="3 sampled tokens") as caught:
        await s.chat([USER])
    assert caught.value.stop_reason == "max_tokens"


async def test_turns_in_flight_count_against_the_limit() -> None:
    s = session(BytesPolicy(delay=0.05), turns=2)
    answers = await asyncio.gather(*(s.chat([USER]) for _ in range(3)), return_exceptions=True)
    assert [type(answer).__name__ for answer in answers] == ["ChatCompletion", "ChatCompletion", "LimitReached"]


async def test_a_failed_call_gives_its_turn_back() -> None:
    s = session(policy := BytesPolicy(RuntimeError("down")), turns=1)
    with pytest.raises(ProviderError, match="RuntimeError: down"):
        await s.chat([USER])
    policy.reply = "ok"
    assert (await s.chat([USER])).choices[0].message.content == "ok"


async def test_tool_calls_are_counted_before_they_are_made() -> None:
    s = session(tool_calls=2)
    s.check_tool_call()
    s.record_tool(EVENT)
    s.record_tool(EVENT)
    with pytest.raises(LimitReached, match="2 tool calls") as caught:
        s.check_tool_call()
    assert caught.value.stop_reason == "max_tool_calls"
    assert s.tool_events == [EVENT, EVENT]


async def test_reserved_tool_calls_in_flight_count() -> None:
    s = session(tool_calls=1)
    s.check_tool_call()
    with pytest.raises(LimitReached):
        s.check_tool_call()


@pytest.mark.parametrize("value", [0, -1, True, "9"])
async def test_a_bad_max_tokens_is_refused(value) -> None:
    with pytest.raises(InputError, match="max_tokens must be a whole number"):
        await session().chat([USER], max_tokens=value)


async def test_no_messages_is_refused() -> None:
    with pytest.raises(InputError, match="messages is empty"):
        await session().turn([])


async def test_streaming_chat_names_the_way_out() -> None:
    with pytest.raises(InputError, match=r"use session\.openai"):
        await session().chat([USER], stream=True)


async def test_a_closed_session_tells_the_stop_reason() -> None:
    s = session()
    await s.crossing.close(LimitReached("timeout", "the limit of 1 seconds is reached"))
    with pytest.raises(LimitReached, match="the rollout is over") as caught:
        await s.chat([USER])
    assert caught.value.stop_reason == "timeout"


async def test_the_async_client_answers() -> None:
    s = session(BytesPolicy("ok"))
    completion = await s.openai.chat.completions.create(model="m", messages=[USER])
    assert (completion.choices[0].message.content, completion.model) == ("ok", "m")
    assert completion.choices[0].token_ids == [111, 107, 0]


async def test_the_async_client_works_in_another_event_loop() -> None:
    s = session(BytesPolicy("ok"))

    def other() -> str:
        async def ask():
            return await s.openai.chat.completions.create(model="m", messages=[USER])

        return asyncio.run(ask()).choices[0].message.content

    assert await asyncio.to_thread(other) == "ok"


async def test_the_sync_client_works_in_a_thread() -> None:
    s = session(BytesPolicy("ok"))
    call = s.openai_sync.chat.completions.create
    completion = await asyncio.to_thread(call, model="m", messages=[USER])
    assert completion.choices[0].message.content == "ok"


async def test_the_sync_client_in_the_loops_own_thread_is_answered_while_the_loop_waits() -> None:
    s = session(BytesPolicy("ok"))
    completion = s.openai_sync.chat.completions.create(model="m", messages=[USER])
    assert completion.choices[0].message.content == "ok"
    assert s.trajectory.metrics["blocking_calls"] == 1
    assert len(s.trajectory.turns) == 1


async def test_closing_frees_threads_that_wait_for_an_answer() -> None:
    s, seen = session(BytesPolicy(delay=60)), []

    def ask() -> None:
        try:
            s.openai_sync.chat.completions.create(model="m", messages=[USER])
        except openai.BadRequestError as error:
            seen.append(error.code)

    thread = threading.Thread(target=ask)
    thread.start()
    await until(lambda: s.policy.running)
    await s.crossing.close(LimitReached("timeout", "over"))
    await asyncio.to_thread(thread.join, 10)
    assert seen == ["timeout"]


@pytest.mark.parametrize(
    ("reply", "body", "error", "text"),
    [
        (RuntimeError("cuda died"), {}, openai.InternalServerError, "RuntimeError: cuda died"),
        (InputError("argument 'frobnicate' is unknown"), {}, openai.BadRequestError, "frobnicate"),
        ("ok", {"n": 2}, openai.BadRequestError, "n must be 1"),
        ("ok", {"tools": [{"type": "web_search"}]}, openai.BadRequestError, "web_search"),
    ],
)
async def test_failures_reach_clients_as_openai_errors(reply, body, error, text) -> None:
    with pytest.raises(error, match=text):
        await session(BytesPolicy(reply)).openai.chat.completions.create(model="m", messages=[USER], **body)


async def test_a_limit_reaches_clients_as_an_error_with_its_stop_reason() -> None:
    s = session(turns=1)
    await s.chat([USER])
    with pytest.raises(openai.BadRequestError) as caught:
        await s.openai.chat.completions.create(model="m", messages=[USER])
    assert (caught.value.type, caught.value.code) == ("rollout_limit", "max_turns")


async def test_other_endpoints_are_refused() -> None:
    with pytest.raises(openai.BadRequestError, match="POST /v1/embeddings is not served"):
        await session().openai.embeddings.create(model="m", input="x")


async def test_a_failing_call_is_made_once() -> None:
    s = session(policy := BytesPolicy(RuntimeError("down")))
    with pytest.raises(openai.InternalServerError):
        await s.openai.chat.completions.create(model="m", messages=[USER])
    assert len(policy.params) == 1
