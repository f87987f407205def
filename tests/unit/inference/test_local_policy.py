from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from art_core import randomness
from art_core.errors import InputError, LimitReached, ProviderError
from art_core.inference.local_policy import LocalPolicy, resolve_params
from art_core.inference.protocol import Capabilities, Completion, Interrupted, SamplingParams
from art_core.messages import Message, ToolSpec
from art_core.rendering.renderer import Renderer
from art_core.rendering.tokenizer import BytesTokenizer
from art_core.trajectory.graph import PolicyVersion, Span, Turn
from art_core.trajectory.recorder import Recorder

RENDERER = Renderer(BytesTokenizer())
USER = Message(role="user", content="hi")
VERSION = PolicyVersion("default", 3)


class TextEngine:
    """An engine that samples the given texts and keeps what it was asked."""

    def __init__(self, *texts: str, max_context: int | None = None, **completion: Any) -> None:
        self.capabilities = Capabilities(max_context=max_context)
        self.texts, self.completion = list(texts), completion
        self.asked: list[SimpleNamespace] = []

    async def sample(self, prompt_ids: Any, params: SamplingParams, version: Any, rng_key: int) -> Completion:
        self.asked.append(SimpleNamespace(ids=list(prompt_ids), params=params, version=version, key=rng_key))
        ids = RENDERER.tokenizer.encode(self.texts.pop(0))[: params.max_tokens]
        done = "stop" if ids and ids[-1] in params.stop_ids else "length"
        fields = {"ids": tuple(ids), "logprobs": (-0.5,) * len(ids), "spans": (Span(0, VERSION),)}
        return Completion(**{**fields, "finish_reason": done, **self.completion})  # type: ignore[arg-type]


class Chat:
    def __init__(self, engine: TextEngine, *, evaluating: bool = False, **options: Any) -> None:
        self.session = SimpleNamespace(recorder=Recorder(), rng_parts=(7, "s"), evaluating=evaluating)
        self.engine, self.policy = engine, LocalPolicy(engine, RENDERER, **options)  # type: ignore[arg-type]

    async def ask(self, *messages: Message, tools: tuple[ToolSpec, ...] = (), **params: Any) -> Turn:
        turn = await self.policy.complete(self.session, messages, tools, params)
        self.session.recorder.add(turn)
        return turn


async def test_calls_that_overlap_are_refused_where_they_must_come_one_at_a_time() -> None:
    go = asyncio.Event()

    class Waiting(TextEngine):
        async def sample(self, *asked: Any) -> Completion:
            await go.wait()
            return await super().sample(*asked)

    chat = Chat(Waiting("a<|im_end|>", "b<|im_end|>"), one_at_a_time=True)
    first = asyncio.create_task(chat.ask(USER))
    await asyncio.sleep(0)
    with pytest.raises(InputError, match="asked the model while an earlier call of it was being answered"):
        await chat.ask(USER)
    go.set()
    assert (await first).reply.content == "a"
    assert (await chat.ask(USER)).reply.content == "b"


async def test_a_turn_holds_what_the_engine_saw_and_drew() -> None:
    chat = Chat(TextEngine("yes<|im_end|>"), version=VERSION)
    turn = await chat.ask(USER)
    (asked,) = chat.engine.asked
    assert list(turn.context_ids) == asked.ids == RENDERER.prompt([USER], [])
    assert RENDERER.text(turn.completion_ids) == "yes<|im_end|>"
    assert (turn.reply.content, turn.finish_reason, turn.versions) == ("yes", "stop", (Span(0, VERSION),))
    assert (turn.trainable, turn.fork, turn.parent) == (True, None, None)
    assert (asked.params.stop_ids, asked.version) == (RENDERER.stop_ids, VERSION)


async def test_the_next_turn_extends_the_ids() -> None:
    chat = Chat(TextEngine("a<|im_end|>", "b<|im_end|>"))
    first = await chat.ask(USER)
    second = await chat.ask(USER, first.reply, USER)
    seen = [*first.context_ids, *first.completion_ids]
    assert chat.engine.asked[1].ids == [*seen, *second.context_ids]
    assert (second.parent, second.parent_len, second.parent_messages) == ("t0", len(seen), 2)
    assert second.messages == (USER,)
    assert second.tools == first.tools


async def test_an_edited_history_is_a_named_fork_that_shares_its_beginning() -> None:
    chat = Chat(TextEngine("abc<|im_end|>", "b<|im_end|>"))
    first = await chat.ask(USER)
    second = await chat.ask(USER, Message(role="assistant", content="abX"), USER)
    assert second.fork == "the history was edited"
    assert (second.parent, second.parent_len) == ("t0", len(first.context_ids) + 2)
    assert chat.session.recorder.graph.history("t1")[1].content == "abX"


async def test_the_same_request_again_reuses_its_ids() -> None:
    chat = Chat(TextEngine("a<|im_end|>", "b<|im_end|>"))
    first = await chat.ask(USER)
    second = await chat.ask(USER)
    assert chat.engine.asked[0].ids == chat.engine.asked[1].ids
    assert (second.parent, second.parent_len, second.context_ids) == ("t0", len(first.context_ids), ())
    assert second.fork == "the same request again"
    assert [m.content for m in chat.session.recorder.graph.history("t1")] == ["hi", "b"]


async def test_other_tools_start_a_root() -> None:
    chat = Chat(TextEngine("a<|im_end|>", "b<|im_end|>"))
    first = await chat.ask(USER)
    second = await chat.ask(USER, first.reply, USER, tools=(ToolSpec(name="f"),))
    assert (second.parent, second.fork) == (None, "other tools are offered")


async def test_draws_are_keyed_by_turn() -> None:
    chat = Chat(TextEngine("a<|im_end|>", "b<|im_end|>"))
    first = await chat.ask(USER)
    await chat.ask(USER, first.reply, USER)
    assert [asked.key for asked in chat.engine.asked] == [randomness.fold(7, "s", 0), randomness.fold(7, "s", 1)]


async def test_the_policy_keeps_its_sampling_while_training(caplog: pytest.LogCaptureFixture) -> None:
    chat = Chat(TextEngine("a<|im_end|>", "b<|im_end|>"))
    with caplog.at_level(logging.WARNING):
        first = await chat.ask(USER, temperature=0.2, top_p=0.5, seed=1, presence_penalty=1.0)
        await chat.ask(USER, temperature=0.2)
    assert first.metadata["overridden"] == {"temperature": 0.2, "top_p": 0.5, "seed": 1, "presence_penalty": 1.0}
    assert (first.temperature, chat.engine.asked[0].params.top_p, first.trainable) == (1.0, 1.0, True)
    assert len(caplog.records) == 4


async def test_evaluating_is_greedy_by_default() -> None:
    chat = Chat(TextEngine("a<|im_end|>"), evaluating=True)
    turn = await chat.ask(USER)
    assert (turn.temperature, turn.not_trainable) == (0.0, "sampled greedily (temperature 0)")


async def test_evaluating_may_have_a_temperature_of_its_own() -> None:
    chat = Chat(TextEngine("a<|im_end|>"), evaluating=True, evaluation_temperature=0.6)
    assert (await chat.ask(USER)).temperature == chat.engine.asked[0].params.temperature == 0.6


async def test_evaluating_honours_the_agents_sampling() -> None:
    chat = Chat(TextEngine("a<|im_end|>"), evaluating=True)
    turn = await chat.ask(USER, temperature=0.7, top_p=0.9, seed=5)
    assert (turn.temperature, chat.engine.asked[0].params.top_p, turn.metadata) == (0.7, 0.9, {})
    assert chat.engine.asked[0].key == randomness.fold(7, "s", "seed", 5, 0)


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
async def test_max_tokens_is_honoured(name: str) -> None:
    turn = await Chat(TextEngine("a long answer")).ask(USER, **{name: 3})
    assert (turn.reply.content, turn.finish_reason) == ("a l", "length")


async def test_the_policys_own_max_tokens_is_the_most() -> None:
    chat = Chat(TextEngine("a long answer"), sampling=SamplingParams(max_tokens=2))
    turn = await chat.ask(USER, max_tokens=100)
    assert (len(turn.completion_ids), turn.metadata["overridden"]) == (2, {"max_tokens": 100})


async def test_a_stop_text_ends_the_turn_at_the_token_that_completes_it() -> None:
    chat = Chat(TextEngine("one END two<|im_end|>", "b<|im_end|>"))
    turn = await chat.ask(USER, stop=["END"])
    assert (RENDERER.text(turn.completion_ids), turn.reply.content) == ("one END", "one ")
    assert (turn.finish_reason, len(turn.logprobs or ())) == ("stop", 7)
    second = await chat.ask(USER, turn.reply, USER)
    assert RENDERER.text(second.context_ids).startswith("<|im_end|>\n<|im_start|>user")


async def test_a_prompt_without_room_reaches_a_limit() -> None:
    with pytest.raises(LimitReached, match="leaves no room in a context of 20") as caught:
        await Chat(TextEngine("a"), max_context=20).ask(USER)
    assert caught.value.stop_reason == "max_context"


async def test_a_completion_gets_the_room_that_is_left() -> None:
    size = len(RENDERER.prompt([USER], []))
    turn = await Chat(TextEngine("abcdef", max_context=size + 4), max_context=10**6).ask(USER)
    assert len(turn.completion_ids) == 4


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"ids": None}, "no ids"),
        ({"ids": (), "logprobs": ()}, "no ids"),
        ({"logprobs": None}, "no logprobs"),
        ({"logprobs": (-1.0,)}, "2 ids but 1 logprobs"),
    ],
)
async def test_an_incomplete_completion_is_the_providers_failure(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ProviderError, match=why):
        await Chat(TextEngine("a<|im_end|>", **fields)).ask(USER)


async def test_an_aborted_completion_may_be_empty() -> None:
    turn = await Chat(TextEngine("", finish_reason="abort")).ask(USER)
    assert (turn.reply.content, turn.why_not_trainable) == ("", "no token ids")


async def test_a_cancelled_call_gives_the_unfinished_turn() -> None:
    class Cancelled(TextEngine):
        async def sample(self, *args: Any) -> Completion:
            raise Interrupted(await super().sample(*args))

    chat = Chat(Cancelled("half an ans", finish_reason="abort"))
    with pytest.raises(Interrupted) as caught:
        await chat.ask(USER)
    turn = caught.value.turn
    assert turn is not None
    assert (turn.reply.content, turn.finish_reason) == ("half an ans", "abort")
    assert turn.why_not_trainable == "cut off while it was being sampled"
    assert list(turn.context_ids) == RENDERER.prompt([USER], [])


async def test_tokens_beyond_a_stop_text_are_counted() -> None:
    turn = await Chat(TextEngine("one. two<|im_end|>")).ask(USER, stop=".")
    assert RENDERER.text(turn.completion_ids) == "one."
    assert turn.metadata == {"tokens_after_stop": len(RENDERER.tokenizer.encode(" two<|im_end|>"))}


async def test_a_request_without_messages_is_refused() -> None:
    with pytest.raises(InputError, match="at least one message"):
        await Chat(TextEngine("a")).ask()


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"temprature": 1}, "unknown chat argument 'temprature'"),
        ({"n": 2}, "n must be 1"),
        ({"max_tokens": 0}, "max_tokens must be at least 1"),
        ({"max_tokens": "9"}, "max_tokens must be a whole number"),
        ({"stop": ""}, "stop must be"),
        ({"stop": [1]}, "stop must be"),
        ({"stop": 3}, "stop must be"),
        ({"temperature": "hot"}, "temperature must be a number"),
        ({"temperature": -1}, "temperature must be 0 or more"),
        ({"top_p": True}, "top_p must be a number"),
        ({"seed": 1.5}, "seed must be a whole number"),
    ],
)
def test_arguments_that_cannot_be_used_are_named(params: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        resolve_params(params, SamplingParams(), evaluating=True)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"temperature": None, "stop": [], "n": 1, "logprobs": True, "user": "u", "model": "m", "stream": False},
        {
            "tool_choice": "auto",
            "parallel_tool_calls": True,
            "presence_penalty": 0,
            "response_format": {"type": "text"},
        },
        {"temperature": 1, "top_p": 1.0},
    ],
)
def test_arguments_that_change_nothing_are_not_overridden(params: dict[str, Any]) -> None:
    wish = resolve_params(params, SamplingParams(), evaluating=False)
    assert (wish.sampling, wish.overridden) == (SamplingParams(), {})


@pytest.mark.parametrize("evaluating", [False, True])
def test_what_no_engine_can_do_is_always_overridden(evaluating: bool) -> None:
    asked = {"tool_choice": "required", "response_format": {"type": "json_object"}, "frequency_penalty": 0.5}
    assert resolve_params(asked, SamplingParams(), evaluating=evaluating).overridden == asked
