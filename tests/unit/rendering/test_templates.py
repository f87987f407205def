from __future__ import annotations

from typing import Any

import pytest

from art_core.errors import InputError
from art_core.messages import Message, ToolCall, ToolSpec
from art_core.rendering.templates import CHATML, ChatTemplate, template_messages, with_tools

from .families import FAMILIES, GEMMA, bpe, renderer

SMOL = (
    "{% for m in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\\nYou are \\'Smol\\' \\\\ é<|im_end|>\\n' }}{% endif %}"
    "{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}"
)
ASK = {"role": "user", "content": "u"}
SCHEMA = {
    "type": "object",
    "title": "Args",
    "properties": {"a": {"type": "integer", "title": "A", "default": 1}},
    "required": ["a"],
}


def tool(parameters: dict[str, Any], description: str = "Adds.") -> dict[str, Any]:
    return {"type": "function", "function": {"name": "add", "description": description, "parameters": parameters}}


def lines(messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, source: str = CHATML) -> list[str]:
    return ChatTemplate(with_tools(source, {}), {}).render(messages, tools).splitlines()


def test_the_tool_section_is_one_line_per_tool() -> None:
    assert lines([ASK], [tool(SCHEMA)]) == [
        "<|im_start|>system",
        "You can call these tools:",
        "<tools>",
        '{"name": "add", "description": "Adds.", "parameters": {"a": {"type": "integer", "default": 1}}, "required": ["a"]}',
        "</tools>",
        "To call one, write:",
        "<tool_call>",
        '{"name": "tool name", "arguments": {"parameter": "value"}}',
        "</tool_call><|im_end|>",
        "<|im_start|>user",
        "u<|im_end|>",
    ]


def test_a_tool_with_nothing_to_say_is_its_name() -> None:
    assert '{"name": "add", "parameters": {}}' in lines([ASK], [tool({"type": "object", "properties": {}}, "")])


def test_a_schema_with_definitions_is_written_whole() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}}
    assert any('"$defs": {"A"' in line for line in lines([ASK], [tool(schema)]))


def test_the_system_text_comes_before_the_tools() -> None:
    shown = lines([{"role": "system", "content": "Be brief."}, ASK], [tool(SCHEMA)])
    assert shown[1:4] == ["Be brief.", "", "You can call these tools:"]


def test_the_templates_default_system_text_is_kept() -> None:
    assert lines([ASK], [tool(SCHEMA)], SMOL)[1:4] == ["You are 'Smol' \\ é", "", "You can call these tools:"]
    assert lines([ASK], None, SMOL) == ChatTemplate(SMOL, {}).render([ASK]).splitlines()


def test_without_tools_the_text_is_the_templates_own() -> None:
    talk = [{"role": "system", "content": "s"}, ASK, {"role": "assistant", "content": "a"}, ASK, ASK]
    assert ChatTemplate(with_tools(CHATML, {}), {}).render(talk) == ChatTemplate(CHATML, {}).render(talk)


def test_calls_and_results_become_text() -> None:
    call = {"id": "x", "type": "function", "function": {"name": "add", "arguments": {"a": "é"}}}
    reply = {"role": "assistant", "content": "", "tool_calls": [call, call]}
    results = [{"role": "tool", "tool_call_id": "x", "content": text} for text in ("1", "2")]
    assert lines([ASK, reply, *results])[2:] == [
        "<|im_start|>assistant",
        *["<tool_call>", '{"name": "add", "arguments": {"a": "é"}}', "</tool_call>"],
        *["<tool_call>", '{"name": "add", "arguments": {"a": "é"}}', "</tool_call><|im_end|>"],
        "<|im_start|>user",
        *["<tool_response>", "1", "</tool_response>", "<tool_response>", "2", "</tool_response><|im_end|>"],
    ]


def test_content_parts_are_joined_and_arguments_may_be_text() -> None:
    call = {"function": {"name": "add", "arguments": '{"a": 1}'}}
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    shown = lines(
        [
            {"role": "system", "content": parts},
            {"role": "user", "content": parts},
            {"role": "assistant", "content": None, "tool_calls": [call]},
        ]
    )
    assert shown[1] == shown[3] == "ab<|im_end|>"
    assert '{"name": "add", "arguments": {"a": 1}}' in shown


def test_a_template_without_a_system_role_gets_the_text_in_the_first_user_turn() -> None:
    source = with_tools(GEMMA, {"bos_token": "<bos>"})
    text = ChatTemplate(source, {"bos_token": "<bos>"}).render([{"role": "system", "content": "s"}, ASK, ASK])
    assert text == "<bos><start_of_turn>user\ns\n\nu\nu<end_of_turn>\n"


def test_a_lone_system_message_becomes_a_user_turn_there() -> None:
    source = with_tools(GEMMA, {"bos_token": ""})
    assert "user\ns<end_of_turn>" in ChatTemplate(source, {"bos_token": ""}).render(
        [{"role": "system", "content": "s"}]
    )


def test_a_refusal_names_the_roles_and_the_reason() -> None:
    with pytest.raises(InputError, match="refused messages with roles system: no system role"):
        ChatTemplate(GEMMA, {}).render([{"role": "system", "content": "s"}])


def test_a_template_that_is_not_jinja_is_refused() -> None:
    with pytest.raises(InputError, match="not valid Jinja: line 1"):
        ChatTemplate("{% for %}", {})


def test_generation_marks_and_loop_controls_are_known() -> None:
    source = "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% break %}{% endfor %}"
    assert ChatTemplate(source, {}).render([ASK, ASK]) == "u"


def test_templates_get_text_and_parsed_arguments() -> None:
    call = ToolCall(id="i", name="f", arguments='{"a": 1}')
    messages = [
        Message(role="assistant", tool_calls=(call,), reasoning="r"),
        Message(role="tool", tool_call_id="i", name="f"),
    ]
    assert template_messages(messages) == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "i", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}],
            "reasoning_content": "r",
        },
        {"role": "tool", "content": "", "tool_call_id": "i", "name": "f"},
    ]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_stock_tokenizer_shows_the_same(name: str) -> None:
    transformers = pytest.importorskip("transformers")
    family, ours = FAMILIES[name], renderer(name)
    marks = {"bos_token": family.bos} if family.bos else {}
    stock = transformers.PreTrainedTokenizerFast(tokenizer_object=bpe(family.special), eos_token=family.eos, **marks)
    talk = [Message(role="system", content="s"), Message(role="user", content="é <b>")]
    tools = [ToolSpec(name="f", description="d", parameters=SCHEMA)]
    text = stock.apply_chat_template(
        [m.to_wire() for m in talk],
        tools=[t.to_wire() for t in tools],
        chat_template=ours.chat_template,
        tokenize=False,
        add_generation_prompt=True,
    )
    assert ours.text(ours.prompt(talk, tools)) == text
