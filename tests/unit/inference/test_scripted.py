from __future__ import annotations

import asyncio
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from art_core.errors import InputError
from art_core.inference.scripted import ScriptedPolicy
from art_core.messages import Message, ToolCall, ToolSpec
from art_core.trajectory.graph import Turn
from art_core.trajectory.recorder import Recorder

USER = Message(role="user", content="hi")
TOOL = ToolSpec(name="f", parameters={"type": "object", "properties": {"a": {"type": "integer"}}})


def session(*rng_parts: Any) -> SimpleNamespace:
    return SimpleNamespace(recorder=Recorder(), rng_parts=rng_parts, evaluating=False)


async def once(reply: Any, tools: tuple[ToolSpec, ...] = (TOOL,), **params: Any) -> Turn:
    return await ScriptedPolicy([reply]).complete(session(1), [USER], tools, params)


def text(turn: Turn) -> str:
    return ScriptedPolicy([]).renderer.text(turn.completion_ids)


async def test_a_text_is_sampled_to_the_stop_token() -> None:
    turn = await once("yes")
    assert (text(turn), turn.reply.content, turn.finish_reason) == ("yes<|im_end|>", "yes", "stop")
    assert turn.trainable


async def test_calls_are_real_ids_that_read_back_as_calls() -> None:
    turn = await once([("f", {"a": 1}), {"name": "f"}, ToolCall(id="own", name="f", arguments="{}")])
    assert [(c.id, c.arguments) for c in turn.reply.tool_calls] == [
        ("t0c000000", '{"a": 1}'),
        ("t0c000001", "{}"),
        ("own", "{}"),
    ]
    assert text(turn).count('<tool_call>\n{"name": "f"') == 3


async def test_a_wire_dict_needs_no_role() -> None:
    call = {"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    turn = await once({"content": "look", "tool_calls": [call]})
    assert turn.reply == Message(
        role="assistant", content="look", tool_calls=(ToolCall(id="x", name="f", arguments="{}"),)
    )


async def test_markup_in_a_text_is_read_and_may_be_malformed() -> None:
    assert (await once('<tool_call>{"name": "f", "arguments": {}}</tool_call>')).reply.tool_calls[0].name == "f"
    assert len((await once("<tool_call>{</tool_call>")).reply.malformed_calls) == 1


async def test_replies_are_used_in_order_over_all_rollouts() -> None:
    policy = ScriptedPolicy(["a", "b"])
    turns = [await policy.complete(session(i), [USER], (), {}) for i in range(2)]
    assert ([turn.reply.content for turn in turns], policy.remaining) == (["a", "b"], 0)
    with pytest.raises(InputError, match="was given 2 replies and asked for one more"):
        await policy.complete(session(), [USER], (), {})


@pytest.mark.parametrize("error", [RuntimeError("down"), TimeoutError, asyncio.CancelledError()])
async def test_exceptions_are_raised(error: Any) -> None:
    with pytest.raises(error if isinstance(error, type) else type(error)):
        await once(error)


async def test_a_callable_sees_messages_and_tools() -> None:
    def say(messages: Any, tools: Any) -> str:
        return f"{messages[-1].content} {tools[0].name}"

    async def later(messages: Any, tools: Any) -> str:
        return say(messages, tools)

    for answer in (say, later):
        policy = ScriptedPolicy(answer)
        turn = await policy.complete(session(), [USER], (TOOL,), {})
        assert (turn.reply.content, policy.remaining) == ("hi f", None)


@pytest.mark.parametrize("reply", [3, None, b"x", [3], [("f", [1])]])
async def test_a_reply_of_no_known_form_is_refused(reply: Any) -> None:
    with pytest.raises(InputError):
        await once(reply)


@pytest.mark.parametrize("replies", ["text", None, 3])
def test_replies_must_be_a_list_or_a_callable(replies: Any) -> None:
    with pytest.raises(InputError, match="replies must be a list or a callable"):
        ScriptedPolicy(replies)


async def test_logprobs_depend_on_the_key_alone() -> None:
    policy = ScriptedPolicy(lambda messages, tools: "same")
    one, two, other = [await policy.complete(session(key), [USER], (), {}) for key in (1, 1, 2)]
    assert one.logprobs == two.logprobs != other.logprobs
    assert one.logprobs is not None
    assert all(-1.1 <= value <= -0.1 for value in one.logprobs)


async def test_length_and_stop_texts_cut() -> None:
    assert text(await once("abcdef", max_tokens=3)) == "abc"
    cut = await once(Message(role="assistant", content="one END two"), stop="END")
    assert (text(cut), cut.reply.content, cut.finish_reason) == ("one END", "one ", "stop")


async def test_a_control_token_in_a_text_ends_it() -> None:
    turn = await once("yes<|im_end|>no")
    assert (text(turn), turn.reply.content) == ("yes<|im_end|>", "yes")


@given(
    st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="<"), min_size=1),
    st.text(min_size=1),
    st.dictionaries(st.text(), st.integers()),
)
def test_scripted_messages_read_back_equal(content: str, name: str, arguments: dict[str, int]) -> None:
    policy = ScriptedPolicy([[(name, arguments)], content])
    recorder = session()

    async def both() -> list[Turn]:
        return [await policy.complete(recorder, [USER], (TOOL,), {}) for _ in range(2)]

    call, said = asyncio.run(both())
    assert policy.renderer.parse(call.completion_ids, (TOOL,), call_id_prefix="t0") == call.reply
    assert policy.renderer.parse(said.completion_ids, (TOOL,), call_id_prefix="t1") == said.reply
    assert said.reply == Message(role="assistant", content=content)


def test_no_torch_is_needed() -> None:
    code = "import art_core.inference.scripted, sys; print({'torch', 'transformers', 'tokenizers'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
