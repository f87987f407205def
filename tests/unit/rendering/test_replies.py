"""What a model has to sample for a known reply, over many chat templates: it follows the prompt, ends the turn, reads back."""

from __future__ import annotations

import pytest

from art_core.messages import Message, ToolCall, ToolSpec
from art_core.rendering.renderer import Renderer

from .families import CHATML, FAMILIES, ToyTokenizer, renderer
from .test_prefix import CALLS, TOOLS, user

THINKING_FIRST = {"qwen3": "<think>\n\n</think>\n\n", "deepseek_r1": "\n</think>\n\n"}
"""What these templates have in front of a reply without reasoning."""
AFTER = {"glm": "<|user|>"}


def stop_text(name: str) -> str:
    family = FAMILIES[name]
    return AFTER.get(name) or family.stop or family.eos


def says(text: str, **more: object) -> Message:
    return Message(role="assistant", content=text, **more)  # type: ignore[arg-type]


def calling() -> Message:
    calls = tuple(
        ToolCall(id=f"call{number:05d}", name=name, arguments=str(arguments).replace("'", '"'))
        for number, (name, arguments) in enumerate(CALLS)
    )
    return Message(role="assistant", content="", tool_calls=calls)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("system", [(), (Message(role="system", content="Be brief."),)], ids=["", "system"])
def test_it_is_the_text_and_the_end_of_the_turn(name: str, system: tuple[Message, ...]) -> None:
    ids = renderer(name).completion([*system, user("time?")], says("21 °C"), [])
    text = renderer(name).text(ids or [])
    assert ids[-1] in renderer(name).stop_ids
    assert text.removeprefix(THINKING_FIRST.get(name, "")).split() == ["21", "°C", stop_text(name)] or text.endswith(
        "21 °C" + stop_text(name)
    )


@pytest.mark.parametrize("name", FAMILIES)
def test_it_reads_back_as_the_message(name: str) -> None:
    ours = renderer(name)
    for reply in (says("done"), says("done", reasoning="two\n\nthoughts"), says("")):
        read = ours.parse(ours.completion([user("u")], reply, TOOLS), TOOLS, call_id_prefix="t0")
        assert (read.text.strip(), read.reasoning or None) == (reply.text, reply.reasoning)


@pytest.mark.parametrize("name", FAMILIES)
def test_calls_read_back_as_they_were_made(name: str) -> None:
    ours = renderer(name)
    read = ours.parse(ours.completion([user("u")], calling(), TOOLS), TOOLS, call_id_prefix="t0")
    assert [(call.name, call.parsed()) for call in read.tool_calls] == CALLS


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in ("deepseek_r1", "mistral3")])
def test_prompt_and_reply_are_the_conversation_as_the_template_writes_it(name: str) -> None:
    ours = renderer(name)
    whole = ours._render([user("u"), says("fine")], TOOLS, False)
    both = ours.text(ours.prompt([user("u")], TOOLS) + ours.completion([user("u")], says("fine"), TOOLS))
    assert (both.removesuffix(AFTER.get(name, "\0"))).rstrip() == whole.rstrip()


def test_a_control_text_in_a_reply_does_not_end_it() -> None:
    ours = renderer("chatml")
    ids = ours.completion([user("u")], says("a<|im_end|>b"), [])
    assert [token for token in ids if token in ours.stop_ids] == ids[-1:]
    assert ours.text(ids) == "a<|im_end|>b<|im_end|>"


def test_the_next_message_decides_the_stop_token_where_it_ends_the_turn() -> None:
    ours = renderer("glm")
    result = Message(role="tool", tool_call_id="x", content="r")
    for following, stop in ((user("more"), "<|user|>"), (result, "<|observation|>"), (None, "<|observation|>")):
        ids = ours.completion([user("u")], calling(), TOOLS, following=following)
        assert ours.text(ids[-1:]) == stop


def test_a_template_without_any_end_of_turn_gets_the_end_of_the_text() -> None:
    bare = CHATML.replace("'<|im_end|>' + ", "").replace("<|im_start|>", "#")
    ours = Renderer(ToyTokenizer(bare, ("<|endoftext|>",), "<|endoftext|>"))
    assert ours.text(ours.completion([user("u")], says("ok"), [])) == "ok\n<|endoftext|>"


def test_a_template_that_hides_where_a_reply_begins_gives_none() -> None:
    odd = "{% for m in messages %}{{ m.role + ': ' + m.content + '<|im_end|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>answer>' }}{% endif %}"
    ours = Renderer(ToyTokenizer(odd, ("<|im_start|>", "<|im_end|>"), "<|im_end|>"))
    assert ours.completion([user("u")], says("ok"), []) is None


def test_reasoning_that_the_template_leaves_out_is_written_as_it_is_read() -> None:
    ours = renderer("chatml")
    ids = ours.completion([user("u")], says("ok", reasoning="hm"), [])
    assert ours.text(ids) == "<think>\nhm\n</think>\n\nok<|im_end|>"
    ids = ours.completion([user("u")], says("hm", reasoning="hm"), [])
    assert ours.text(ids) == "<think>\nhm\n</think>\n\nhm<|im_end|>"


def test_tools_do_not_change_the_reply() -> None:
    ours, tool = renderer("chatml"), ToolSpec(name="f")
    assert ours.completion([user("u")], says("ok"), [tool]) == ours.completion([user("u")], says("ok"), [])
