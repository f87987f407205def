from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from art_core.messages import Message, ToolCall, ToolSpec
from art_core.rendering.parsing import FORMATS, hermes_text, parse_text, split_reasoning

TOOL = ToolSpec(
    name="f",
    parameters={"type": "object", "properties": {"s": {"type": "string"}, "n": {"type": "integer"}}},
)


def parse(text: str, form: str = "hermes") -> Message:
    return parse_text(text, [TOOL], call_id_prefix="t0", form=form)


def calls(text: str, form: str = "hermes") -> list[tuple[str, dict[str, object]]]:
    return [(call.name, call.parsed()) for call in parse(text, form).tool_calls]


def error(text: str, form: str = "hermes") -> str:
    message = parse(text, form)
    assert message.tool_calls == ()
    (call,) = message.malformed_calls
    return call.error


def test_plain_text_is_kept_to_the_byte() -> None:
    assert parse(" a \n").content == " a \n"


def test_a_call_has_no_content_beside_it() -> None:
    message = parse('<tool_call>\n{"name": "f", "arguments": {"n": 1}}\n</tool_call>')
    assert message == Message(role="assistant", tool_calls=(ToolCall(id="t0c000000", name="f", arguments='{"n": 1}'),))


def test_text_around_calls_is_content() -> None:
    text = 'Look:\n<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    assert (parse(text).content, calls(text)) == ("Look:", [("f", {})])


def test_parallel_calls_have_different_ids_of_nine_characters() -> None:
    one = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    assert [call.id for call in parse(one + "\n" + one).tool_calls] == ["t0c000000", "t0c000001"]


@pytest.mark.parametrize("arguments", ["{}", "null", '""', '" "', '"{}"'])
def test_empty_arguments_are_an_empty_object(arguments: str) -> None:
    assert calls('<tool_call>{"name": "f", "arguments": ' + arguments + "}</tool_call>") == [("f", {})]


def test_arguments_may_be_a_json_string() -> None:
    assert calls(r'<tool_call>{"name": "f", "arguments": "{\"n\": 1}"}</tool_call>') == [("f", {"n": 1})]


def test_a_complete_last_call_needs_no_closing_tag() -> None:
    assert calls('<tool_call>\n{"name": "f", "arguments": {"n": 1}}\n') == [("f", {"n": 1})]


def test_a_closing_tag_inside_a_string_does_not_close() -> None:
    assert calls('<tool_call>{"name": "f", "arguments": {"s": "</tool_call>"}}</tool_call>') == [
        ("f", {"s": "</tool_call>"})
    ]


def test_an_unknown_tool_is_a_call() -> None:
    assert calls('<tool_call>{"name": "nope", "arguments": {}}</tool_call>') == [("nope", {})]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ('{"name": "f", "arguments": {"n": 1}', "not valid JSON"),
        ('{"name": "f"}', '"arguments" is missing'),
        ('{"arguments": {}}', '"name" must be'),
        ('{"name": 3, "arguments": {}}', '"name" must be'),
        ('{"name": "f", "arguments": [1]}', "must be a JSON object"),
        ('{"name": "f", "arguments": "{} {}"}', "must be a JSON object"),
        ('[{"name": "f", "arguments": {}}]', "must be a JSON object"),
        ('{"name": "f", "arguments": {"n": NaN}}', "NaN is not JSON"),
        ('{"name": "f", "arguments": {"n": 1e999}}', "not valid JSON"),
        ('{"name": "f", "arguments": {"s": "\\ud800"}}', "surrogate"),
        ('{"name": "f", "arguments": {}} and', "text after"),
        ('{"name": "f", "arguments": {"n": ' + "[" * 200 + "]" * 200 + "}}", "nested too deeply"),
        ('{"name": "f", "arguments": ' + "[" * 200_000, "nested too deeply"),
        ("", "not valid JSON"),
    ],
)
def test_an_unreadable_call_is_data(body: str, why: str) -> None:
    assert why in error(f"<tool_call>{body}</tool_call>")


def test_a_malformed_call_stays_in_the_content() -> None:
    message = parse('Hm <tool_call>{"name"</tool_call> so')
    assert message.content == 'Hm <tool_call>{"name"</tool_call> so'
    assert message.malformed_calls[0].raw == '<tool_call>{"name"</tool_call>'


def test_good_calls_beside_a_malformed_one_are_kept() -> None:
    message = parse('<tool_call>{</tool_call>\n<tool_call>{"name": "f", "arguments": {}}</tool_call>')
    assert (len(message.tool_calls), len(message.malformed_calls)) == (1, 1)
    assert message.content == "<tool_call>{</tool_call>"


def test_without_tools_nothing_is_a_call() -> None:
    text = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    assert parse_text(text, [], call_id_prefix="t0") == Message(role="assistant", content=text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>\na\n</think>\n\nb", ("a", "b")),
        ("<think></think>b", (None, "b")),
        ("\n<think>a", ("a", "")),
        ("b <think>a</think>", (None, "b <think>a</think>")),
        ("a</think>b", (None, "a</think>b")),
    ],
)
def test_reasoning_is_split_off(text: str, expected: tuple[str | None, str]) -> None:
    assert split_reasoning(text) == expected


def test_reasoning_opened_by_the_prompt_ends_at_its_tag() -> None:
    assert split_reasoning("a\n</think>\n\nb", opened=True) == ("a", "b")
    assert split_reasoning("a", opened=True) == ("a", "")


def test_calls_inside_reasoning_are_thoughts() -> None:
    message = parse('<think><tool_call>{"name": "f", "arguments": {}}</tool_call></think>no')
    assert (message.tool_calls, message.content) == ((), "no")


def test_xml_values_have_the_types_of_the_schema() -> None:
    text = (
        "<tool_call>\n<function=f>\n<parameter=s>\n12\n</parameter>\n<parameter=n>\n12\n</parameter>\n"
        "<parameter=o>\n[1, 2]\n</parameter>\n</function>\n</tool_call>"
    )
    assert calls(text, "xml") == [("f", {"s": "12", "n": 12, "o": [1, 2]})]


def test_xml_text_of_several_lines_is_kept() -> None:
    text = "<tool_call><function=f><parameter=s>\na\n\nb\n</parameter></function></tool_call>"
    assert calls(text, "xml") == [("f", {"s": "a\n\nb"})]


@pytest.mark.parametrize("body", ["f()", "<function=f>x</function>", "<function=f><parameter=s>x"])
def test_unreadable_xml_is_data(body: str) -> None:
    assert "could not be read" in error(f"<tool_call>{body}</tool_call>", "xml")


def test_llama_calls_are_the_whole_reply() -> None:
    text = '<|python_tag|>{"name": "f", "parameters": {"n": 1}}; {"name": "f", "parameters": {}}'
    assert calls(text, "llama") == [("f", {"n": 1}), ("f", {})]
    assert parse('Well, {"name": "f"}', "llama").content == 'Well, {"name": "f"}'


@pytest.mark.parametrize(
    "text", ['{"name": "f", "parameters": 3}', '{"name": "f"', '{"name": "f", "parameters": {}} x']
)
def test_unreadable_llama_calls_are_data(text: str) -> None:
    assert "could not be read" in error(text, "llama")
    assert parse(text, "llama").content == text


def test_mistral_calls_keep_their_ids() -> None:
    text = 'ok[TOOL_CALLS] [{"name": "f", "arguments": {}, "id": "abcdefghi"}, {"name": "f", "arguments": {}, "id": "abcdefghi"}]'
    message = parse(text, "mistral")
    assert message.content == "ok"
    assert [call.id for call in message.tool_calls] == ["abcdefghi", "t0c000001"]


@pytest.mark.parametrize("body", ["{}", "[1]", "[", "[] x"])
def test_unreadable_mistral_calls_are_data(body: str) -> None:
    assert "could not be read" in error("[TOOL_CALLS]" + body, "mistral")


FRAGMENTS = st.sampled_from(
    [
        "<tool_call>",
        "</tool_call>",
        "<think>",
        "</think>",
        "[TOOL_CALLS]",
        "<|python_tag|>",
        '{"name": "f"',
        ', "arguments": ',
        "{}",
        "}",
        "[",
        "]",
        "<function=f>",
        "</function>",
        "<parameter=s>",
        "</parameter>",
        "\n",
        ";",
        '"\\ud800"',
        "1e999",
    ]
)


@given(
    st.lists(FRAGMENTS | st.text(max_size=5), max_size=12).map("".join), st.sampled_from(sorted(FORMATS)), st.booleans()
)
def test_no_text_makes_the_parser_raise(text: str, form: str, opened: bool) -> None:
    message = parse_text(text, [TOOL], call_id_prefix="t0", form=form, opened=opened)
    assert all(isinstance(call.parsed(), dict) for call in message.tool_calls)
    assert len({call.id for call in message.tool_calls}) == len(message.tool_calls)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.tuples(st.text(min_size=1), st.dictionaries(st.text(), JSON, max_size=3)), min_size=1, max_size=3))
def test_what_is_written_in_hermes_style_is_read_back(made: list[tuple[str, dict[str, object]]]) -> None:
    written = hermes_text(
        Message(
            role="assistant",
            content="x",
            tool_calls=tuple(ToolCall(id="", name=name, arguments=json.dumps(value)) for name, value in made),
        )
    )
    assert calls(written) == made
