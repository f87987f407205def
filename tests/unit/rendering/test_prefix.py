"""T13: the next prompt begins with the ids of the previous prompt and reply, over many chat templates; else a fork is named."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from art_core.inference.local_policy import LocalPolicy
from art_core.inference.protocol import Capabilities, Completion
from art_core.messages import Message, ToolSpec
from art_core.trajectory.graph import Turn
from art_core.trajectory.recorder import Recorder

from .families import FAMILIES, renderer, write_calls

TOOLS = [
    ToolSpec(
        name=name,
        description="Tells it.",
        parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    )
    for name in ("get_time", "get_weather")
]
CALLS: list[tuple[str, dict[str, Any]]] = [("get_time", {"city": "Zürich"}), ("get_weather", {"city": "東京"})]
CANNOT = "the chat template cannot be continued"


class Conversation:
    """One rollout against an engine that samples the given texts."""

    capabilities = Capabilities()

    def __init__(self, name: str, tools: list[ToolSpec]) -> None:
        self.family, self.renderer, self.tools = FAMILIES[name], renderer(name), tools
        self.session = SimpleNamespace(recorder=Recorder(), rng_parts=(), evaluating=False)
        self.policy = LocalPolicy(self, self.renderer)  # type: ignore[arg-type]
        self.messages: list[Message] = []
        self.prompt: list[int] = []
        self.next: tuple[str, Any] = ("", "stop")

    async def sample(self, prompt_ids: Any, params: Any, version: Any, rng_key: int) -> Completion:
        text, finish = self.next
        self.prompt = list(prompt_ids)
        ids = self.renderer.tokenizer.encode(text)
        return Completion(ids=tuple(ids), logprobs=(-1.0,) * len(ids), finish_reason=finish, spans=())

    async def say(self, text: str, *, then: str = "user", cut: bool = False) -> Turn:
        stop = {"next": f"<|{then}|>", "": self.family.eos}.get(self.family.stop, self.family.stop)
        self.next = (text, "length") if cut else (text + stop, "stop")
        turn = await self.policy.complete(self.session, self.messages, self.tools, {})
        self.session.recorder.add(turn)
        self.messages.append(turn.reply)
        return turn

    def hear(self, *messages: Message) -> None:
        self.messages.extend(messages)

    def seen(self, turn: Turn) -> list[int]:
        return self.session.recorder.graph.path(turn.id)

    def follows(self, earlier: Turn) -> bool:
        """Whether the last prompt begins with everything ``earlier`` saw and sampled."""
        path = self.seen(earlier)
        return self.prompt[: len(path)] == path


def user(text: str) -> Message:
    return Message(role="user", content=text)


def results(turn: Turn) -> list[Message]:
    texts = ["error: no such city «Zürich»", '{"temperature": "21 °C"}']
    return [
        Message(role="tool", tool_call_id=call.id, content=text)
        for call, text in zip(turn.reply.tool_calls, texts, strict=True)
    ]


def call_text(talk: Conversation, calls: list[tuple[str, dict[str, Any]]] = CALLS) -> str:
    closed = "</think>\n" if "<think>" in talk.family.template[-60:] else ""
    return closed + write_calls(talk.family.form, calls)


@pytest.mark.parametrize("name", FAMILIES)
async def test_t13_parallel_tool_results_extend_the_ids(name: str) -> None:
    talk = Conversation(name, TOOLS)
    talk.hear(user("¿Qué tal? ☀"))
    first = await talk.say(call_text(talk), then="observation")
    assert [(c.name, c.parsed()) for c in first.reply.tool_calls] == CALLS
    talk.hear(*results(first))
    second = await talk.say("21 °C")
    assert talk.follows(first)
    assert (second.fork, second.parent) == (None, first.id)


@pytest.mark.parametrize("name", FAMILIES)
async def test_what_follows_a_reply_is_what_the_template_writes(name: str) -> None:
    talk = Conversation(name, TOOLS)
    talk.hear(Message(role="system", content="Be brief."), user("time?"))
    first = await talk.say(call_text(talk), then="observation")
    talk.hear(*results(first))
    await talk.say("done")
    text, whole = talk.renderer.text(talk.prompt), talk.renderer.text(talk.renderer.prompt(talk.messages[:-1], TOOLS))
    after = talk.renderer.text(talk.seen(first)[-1:])
    assert text.rpartition(after)[2] == whole.rpartition(after)[2]
    assert text.count("no such city") == whole.count("no such city") == 1


@pytest.mark.parametrize("name", FAMILIES)
async def test_t13_user_turns_extend_the_ids_or_name_the_fork(name: str) -> None:
    talk = Conversation(name, TOOLS)
    talk.hear(user("hello"))
    first = await talk.say("")
    talk.hear(user("再见 👋"))
    second = await talk.say("bye")
    assert talk.follows(first) is talk.family.user_bridge
    assert second.fork == (None if talk.family.user_bridge else CANNOT)


@pytest.mark.parametrize("name", FAMILIES)
async def test_t13_thinking_stays_as_it_was_sampled(name: str) -> None:
    talk = Conversation(name, [])
    talk.hear(user("hello"))
    opened = "" if talk.renderer.text(talk.renderer.prompt(talk.messages, [])).endswith("<think>\n") else "<think>\n"
    first = await talk.say(opened + "two\n\nthoughts\n</think>\n\nHello!")
    assert (first.reply.reasoning, first.reply.content) == ("two\n\nthoughts", "Hello!")
    talk.hear(user("and?"))
    await talk.say("ok")
    assert talk.follows(first)
    assert "thoughts" in talk.renderer.text(talk.prompt)


@pytest.mark.parametrize("name", FAMILIES)
async def test_t14_a_cut_reply_gets_its_end_of_turn(name: str) -> None:
    talk = Conversation(name, [])
    talk.hear(user("hello"))
    first = await talk.say("I was say", cut=True)
    talk.hear(user("go on"))
    second = await talk.say("ing")
    assert second.fork is None
    assert talk.follows(first)
    assert second.context_ids[0] in talk.renderer.stop_ids


@pytest.mark.parametrize("name", FAMILIES)
async def test_a_cut_tool_call_can_be_answered(name: str) -> None:
    talk = Conversation(name, TOOLS)
    talk.hear(user("time?"))
    first = await talk.say(call_text(talk)[:-9], cut=True)
    talk.hear(user("Your call could not be read."))
    second = await talk.say("sorry")
    assert second.fork == (None if talk.family.user_bridge else CANNOT)
    assert talk.follows(first) is talk.family.user_bridge


@pytest.mark.parametrize("name", FAMILIES)
async def test_t13_five_turns_are_one_row(name: str) -> None:
    talk = Conversation(name, TOOLS)
    talk.hear(user("time?"))
    for _ in range(4):
        turn = await talk.say(call_text(talk), then="observation")
        talk.hear(*results(turn))
    last = await talk.say("noon")
    graph = talk.session.recorder.graph
    assert [turn.id for turn in graph.leaves()] == [last.id]
    assert [turn.fork for turn in graph] == [None] * 5


@pytest.mark.parametrize("name", FAMILIES)
def test_no_tools_and_an_empty_list_of_tools_are_the_same(name: str) -> None:
    source = renderer(name)._template
    ask = [{"role": "user", "content": "u"}]
    assert source.render(ask, [], add_generation_prompt=True) == source.render(ask, None, add_generation_prompt=True)


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.bos])
async def test_t15_bos_is_never_doubled(name: str) -> None:
    talk = Conversation(name, TOOLS)
    talk.hear(Message(role="system", content="s"), user("u"))
    first = await talk.say(call_text(talk), then="observation")
    bos = talk.renderer.tokenizer.encode(talk.family.bos)
    assert len(bos) == 1
    assert talk.prompt[0] == bos[0]
    assert talk.prompt[1] != bos[0]
    talk.hear(*results(first))
    await talk.say("done")
    assert talk.prompt.count(bos[0]) == (2 if name == "llama2" else 1)


@pytest.mark.parametrize("name", FAMILIES)
async def test_t14_control_texts_in_a_tool_result_stay_text(name: str) -> None:
    talk = Conversation(name, TOOLS)
    talk.hear(user("time?"))
    first = await talk.say(call_text(talk, CALLS[:1]), then="observation")
    nasty = "".join(talk.family.special)
    talk.hear(Message(role="tool", tool_call_id=first.reply.tool_calls[0].id, content="x"))
    await talk.say("a")
    plain = len([i for i in talk.prompt if i in _control(talk)])
    other = Conversation(name, TOOLS)
    other.hear(user("time?"))
    first = await other.say(call_text(talk, CALLS[:1]), then="observation")
    other.hear(Message(role="tool", tool_call_id=first.reply.tool_calls[0].id, content=nasty))
    await other.say("a")
    assert len([i for i in other.prompt if i in _control(talk)]) == plain
    assert nasty in talk.renderer.text(other.prompt)


def _control(talk: Conversation) -> set[int]:
    return {talk.renderer.tokenizer.encode(text)[0] for text in talk.family.special}


async def test_t14_any_of_two_end_ids_ends_a_turn() -> None:
    talk = Conversation("gemma", [])
    talk.hear(user("hello"))
    talk.next = ("hi<eos>", "stop")
    first = await talk.policy.complete(talk.session, talk.messages, [], {})
    talk.session.recorder.add(first)
    talk.hear(first.reply, user("more"))
    second = await talk.say("ok")
    assert first.reply.content == "hi"
    assert (second.fork, talk.follows(first)) == (None, True)
    assert talk.renderer.text(second.context_ids).startswith("\n<start_of_turn>user")


async def test_a_stop_token_that_opens_another_role_forks() -> None:
    talk = Conversation("glm", TOOLS)
    talk.hear(user("time?"))
    first = await talk.say(call_text(talk), then="user")
    talk.hear(*results(first))
    second = await talk.say("ok")
    assert second.fork == CANNOT
    assert talk.renderer.text(talk.prompt).count("<|user|>") == 1
    assert second.parent == first.id


async def test_the_stop_token_shared_with_the_next_message_is_sampled_and_not_repeated() -> None:
    talk = Conversation("glm", TOOLS)
    talk.hear(user("time?"))
    first = await talk.say(call_text(talk), then="observation")
    talk.hear(*results(first))
    await talk.say("ok")
    assert talk.renderer.text(first.completion_ids).endswith("<|observation|>")
    assert talk.renderer.text(talk.prompt).count("<|observation|>") == 1


async def test_parallel_results_share_one_user_turn() -> None:
    talk = Conversation("qwen25", TOOLS)
    talk.hear(user("time?"))
    first = await talk.say(call_text(talk))
    talk.hear(*results(first))
    second = await talk.say("ok")
    added = talk.renderer.text(second.context_ids)
    assert added.startswith("\n<|im_start|>user\n<tool_response>\nerror")
    assert added.count("<|im_start|>user") == 1


async def test_tool_messages_after_a_malformed_call_are_bridged() -> None:
    talk = Conversation("llama3", TOOLS)
    talk.hear(user("time?"))
    first = await talk.say('{"name": "get_time", "parameters": {"city": }}')
    assert len(first.reply.malformed_calls) == 1
    talk.hear(Message(role="tool", tool_call_id="x", content="not JSON"))
    second = await talk.say("sorry")
    assert (second.fork, talk.follows(first)) == (None, True)
