import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from art_core.errors import InputError
from art_core.messages import MalformedCall, Message, ToolCall, ToolSpec, canonical_json, content_text

text = st.text(max_size=10)
calls = st.builds(
    ToolCall, id=text, name=text, arguments=st.dictionaries(text, st.integers(), max_size=2).map(json.dumps)
)
parts = st.lists(text.map(lambda value: {"type": "text", "text": value}), max_size=3).map(tuple)
contents = st.none() | text | parts
wireable = st.builds(
    Message,
    role=st.just("assistant"),
    content=contents,
    tool_calls=st.lists(calls, max_size=2).map(tuple),
    reasoning=st.none() | st.text(min_size=1, max_size=9),
) | st.builds(Message, role=st.sampled_from(["system", "developer", "user"]), content=contents, name=st.none() | text)


@given(wireable)
def test_from_wire_of_to_wire_is_the_same_message(message) -> None:
    assert Message.from_wire(json.loads(json.dumps(message.to_wire()))) == message


@given(wireable, st.lists(st.builds(MalformedCall, raw=text, error=text), max_size=2).map(tuple))
def test_from_record_of_to_record_is_the_same_message(message, malformed) -> None:
    if message.role == "assistant":
        message = Message(role="assistant", content=message.content, reasoning="", malformed_calls=malformed)
    assert Message.from_record(json.loads(json.dumps(message.to_record()))) == message


def test_malformed_calls_are_never_sent() -> None:
    message = Message(role="assistant", content="x", malformed_calls=(MalformedCall(raw="<", error="no name"),))
    assert message.to_wire() == {"role": "assistant", "content": "x"}


def test_a_tool_message_on_the_wire() -> None:
    message = Message(role="tool", content="2", tool_call_id="c1")
    assert message.to_wire() == {"role": "tool", "content": "2", "tool_call_id": "c1"}


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
def test_reasoning_is_read_under_both_names(key) -> None:
    assert Message.from_wire({"role": "assistant", "content": None, key: "hmm"}).reasoning == "hmm"


def test_call_arguments_may_come_as_an_object_or_not_at_all() -> None:
    function = [{"name": "add", "arguments": {"a": 1}}, {"name": "now"}, {"name": "now", "arguments": ""}]
    read = [ToolCall.from_wire({"id": "c", "function": f}).parsed() for f in function]
    assert read == [{"a": 1}, {}, {}]


@pytest.mark.parametrize("arguments", ["{", "[1, 2]", "3", "null"])
def test_arguments_that_are_no_object_are_refused(arguments) -> None:
    with pytest.raises(InputError, match="arguments of tool call 'add' are not"):
        ToolCall(id="c1", name="add", arguments=arguments)


@pytest.mark.parametrize(
    ("wire", "message"),
    [
        ({"content": "hi"}, "must be an object with a role"),
        ("hi", "must be an object with a role"),
        ({"role": "robot", "content": "hi"}, "message role 'robot' is not one of system"),
        ({"role": "user", "content": 7}, "content must be text or a list of parts, got 7"),
        ({"role": "tool", "content": "2"}, "a tool message needs tool_call_id"),
    ],
)
def test_messages_that_cannot_be_read(wire, message) -> None:
    with pytest.raises(InputError, match=message):
        Message.from_wire(wire)


def test_only_assistants_call_tools() -> None:
    with pytest.raises(InputError, match="not a user message"):
        Message(role="user", tool_calls=(ToolCall(id="c1", name="add", arguments="{}"),))


def test_the_text_of_parts_names_what_is_not_text() -> None:
    assert content_text(({"type": "text", "text": "see "}, {"type": "image_url", "image_url": {}})) == "see [image_url]"
    assert content_text(None) == ""


def test_canonical_json_does_not_depend_on_order_or_spaces() -> None:
    assert canonical_json(json.loads('{"b": 1, "a": "é"}')) == '{"a":"é","b":1}'


def test_a_tool_spec_goes_over_the_wire_and_back() -> None:
    spec = ToolSpec(name="add", description="Adds.", parameters={"type": "object", "properties": {"a": {}}})
    assert ToolSpec.from_wire(spec.to_wire()) == spec


def test_a_tool_without_parameters_takes_none() -> None:
    spec = ToolSpec.from_wire({"type": "function", "function": {"name": "now", "description": None}})
    assert spec == ToolSpec(name="now", parameters={"type": "object", "properties": {}})


@pytest.mark.parametrize("wire", [{"type": "web_search"}, {"type": "function"}, {"function": {"name": ""}}])
def test_tools_that_cannot_be_offered(wire) -> None:
    with pytest.raises(InputError, match=r"is not a function tool|needs a name"):
        ToolSpec.from_wire(wire)
