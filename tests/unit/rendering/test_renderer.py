from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from art_core.errors import InputError
from art_core.messages import Message, ToolCall, ToolSpec
from art_core.rendering.renderer import Renderer
from art_core.rendering.tokenizer import BytesTokenizer

from .families import FAMILIES, GEMMA, MISTRAL1, QWEN25, ToyTokenizer, renderer

BYTES = Renderer(BytesTokenizer())
TOOL = ToolSpec(name="f", parameters={"type": "object", "properties": {"a": {"type": "integer"}}})
USER = Message(role="user", content="hi")


def reply(text: str) -> Message:
    return Message(role="assistant", content=text)


@pytest.mark.parametrize("name", FAMILIES)
def test_native_tools_are_found_by_trying(name: str) -> None:
    ours, form = renderer(name), FAMILIES[name].form
    assert ours.native_tools is (form is not None)
    assert (ours.chat_template == ours.tokenizer.chat_template) is ours.native_tools


def test_tools_that_cannot_be_read_back_are_replaced_by_the_fallback() -> None:
    template = BytesTokenizer().chat_template.replace(
        "{%- for", "{%- if tools -%}{{- tools | tojson -}}{%- endif -%}{%- for", 1
    )
    ours = Renderer(BytesTokenizer(template))
    assert not ours.native_tools
    assert ours.text(ours.prompt([USER], [TOOL])).startswith("<|im_start|>system\nYou can call")


def test_a_prompt_ends_where_the_reply_begins() -> None:
    assert BYTES.text(BYTES.prompt([USER], [])) == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"


def test_the_stop_token_is_no_part_of_the_message() -> None:
    assert BYTES.parse([104, 105, 257], [], call_id_prefix="t0").content == "hi"


def test_an_empty_completion_is_an_empty_message() -> None:
    assert BYTES.parse([], [TOOL], call_id_prefix="t0") == Message(role="assistant", content="")


def test_text_from_a_stop_text_on_is_left_out() -> None:
    ids = BYTES.tokenizer.encode("one END two")
    assert BYTES.parse(ids, [], call_id_prefix="t0", stop=("two", "END")).content == "one "


def test_an_eos_id_that_opens_turns_does_not_end_them() -> None:
    family = FAMILIES["chatml"]
    ours = Renderer(ToyTokenizer(family.template, family.special, "<|im_start|>"))
    assert [ours.tokenizer.decode([i]) for i in ours.stop_ids] == ["<|im_end|>"]


def test_developer_messages_are_system_messages_where_the_template_knows_no_better() -> None:
    for name in ("llama3", "qwen25", "chatml"):
        ours = renderer(name)
        talk = [[Message(role=role, content="s"), USER] for role in ("developer", "system")]
        texts = [ours.text(ours.prompt(messages, [TOOL])) for messages in talk]
        assert texts[0].replace("developer", "system") == texts[1]


def test_a_conversation_the_template_refuses_is_an_input_error() -> None:
    bare = ToyTokenizer(MISTRAL1, ("<s>", "</s>"), "</s>", "<s>")
    with pytest.raises(InputError, match="roles must alternate"):
        Renderer(bare).prompt([reply("first")], [])


def test_a_template_that_cannot_show_a_user_message_is_refused() -> None:
    with pytest.raises(InputError, match="nothing works"):
        Renderer(BytesTokenizer("{{ raise_exception('nothing works') }}"))


def test_a_template_that_shows_replies_twice_has_no_bridge() -> None:
    ours = Renderer(BytesTokenizer("{% for m in messages %}{{ m.content + m.content + '<|im_end|>' }}{% endfor %}"))
    assert ours.extend([104, 257], [USER, reply("h")], [USER], [], finish_reason="stop") is None


def test_a_template_that_drops_old_turns_has_no_bridge() -> None:
    ours = Renderer(BytesTokenizer("{% for m in messages[-2:] %}{{ m.role + m.content + '<|im_end|>' }}{% endfor %}"))
    history = [USER, reply("a"), Message(role="user", content="two"), reply("b")]
    assert ours.extend([104, 257], history, [USER], [], finish_reason="stop") is None


def test_a_template_that_ends_the_last_reply_in_its_own_way_has_no_bridge() -> None:
    mark = "{{ ('!' if loop.last else '?') if m.role == 'assistant' }}<|im_end|>"
    ours = Renderer(BytesTokenizer("{% for m in messages %}{{ m.role + m.content }}" + mark + "{% endfor %}"))
    assert ours.extend([104, 257], [USER, reply("h")], [USER], [], finish_reason="stop") is None


def test_tool_messages_that_answer_no_readable_call_are_bridged_as_if_they_did() -> None:
    first = "{%- for m in messages %}{% if m.role == 'tool' %}"
    refusal = "{% if not messages[loop.index0 - 1].tool_calls %}{{ raise_exception('answers nothing') }}{% endif %}"
    ours = Renderer(BytesTokenizer(QWEN25.replace(first, first + refusal)))
    answer = Message(role="tool", tool_call_id="c", content="not JSON")
    added = ours.extend([104, 257], [USER, reply("<tool_call>{")], [answer], [TOOL], finish_reason="stop")
    assert added is not None
    assert ours.text(added).startswith("\n<|im_start|>user\n<tool_response>\nnot JSON")


def test_a_template_without_any_end_of_turn_is_continued_after_a_cut_only() -> None:
    ours = Renderer(BytesTokenizer("{% for m in messages %}{{ '\n# ' + m.role + '\n' + m.content }}{% endfor %}"))
    cut = ours.extend([104], [USER, reply("h")], [USER], [], finish_reason="length")
    assert cut is not None
    assert ours.text(cut) == "\n# user\nhi"
    assert ours.extend([104, 257], [USER, reply("h")], [USER], [], finish_reason="stop") is None


def test_a_system_text_folded_into_the_first_user_turn_stays_there() -> None:
    family = FAMILIES["gemma"]
    ours = Renderer(ToyTokenizer(GEMMA, family.special, family.eos, family.bos))
    history = [Message(role="system", content="s"), USER, reply("a")]
    path = [*ours.prompt(history[:2], []), *ours.tokenizer.encode("a<end_of_turn>")]
    added = ours.extend(path, history, [USER], [], finish_reason="stop")
    assert added is not None
    assert [*path, *added] == ours.prompt([*history, USER], [])


TEXTS = st.lists(st.sampled_from(["<|im_end|>", "<|im_start|>user\n", "<tool_call>", "\n"]) | st.text(max_size=6)).map(
    "".join
)
MESSAGES = st.builds(Message, role=st.just("user"), content=TEXTS) | st.builds(
    Message, role=st.just("tool"), content=TEXTS, tool_call_id=st.just("c")
)


@given(st.lists(MESSAGES, min_size=1, max_size=3), TEXTS, st.lists(MESSAGES, max_size=3), st.booleans())
def test_extending_gives_what_rendering_anew_gives(
    asked: list[Message], text: str, new: list[Message], offered: bool
) -> None:
    tools = [TOOL] if offered else []
    prompt = BYTES.prompt([*asked, reply(text), *new], tools)
    first = BYTES.prompt(asked, tools)
    path = prompt[: prompt.index(257, len(first)) + 1]
    assert path[: len(first)] == first
    added = BYTES.extend(path, [*asked, reply(text)], new, tools, finish_reason="stop")
    assert added is not None
    assert path + added == prompt


@given(st.lists(st.integers(0, 258), max_size=20), st.lists(MESSAGES, max_size=2))
def test_anything_sampled_can_be_continued(sampled: list[int], new: list[Message]) -> None:
    path = [*BYTES.prompt([USER], [TOOL]), *sampled]
    message = BYTES.parse(sampled, [TOOL], call_id_prefix="t0")
    finish = "stop" if sampled[-1:] == [257] else "length"
    added = BYTES.extend(path, [USER, message], new, [TOOL], finish_reason=finish)  # type: ignore[arg-type]
    assert added is not None
    assert (added[0] == 257) is (finish == "length")


def test_calls_before_the_last_reply_are_rendered_with_their_results() -> None:
    call = ToolCall(id="c", name="f", arguments="{}")
    talk = [USER, Message(role="assistant", tool_calls=(call,)), Message(role="tool", tool_call_id="c", content="1")]
    path = [*BYTES.prompt(talk, [TOOL]), *BYTES.tokenizer.encode("one<|im_end|>")]
    added = BYTES.extend(path, [*talk, reply("one")], [USER], [TOOL], finish_reason="stop")
    assert added is not None
    assert path + added == BYTES.prompt([*talk, reply("one"), USER], [TOOL])
