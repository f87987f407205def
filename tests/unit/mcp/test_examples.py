import pytest

from art_core.errors import InputError
from art_core.messages import ToolCall
from art_integrations.mcp.examples import Example, example_messages, parse_examples

EXAMPLE = Example(request="Add two", tool="add", arguments={"by": 2})


def test_an_example_is_a_request_and_the_call_that_answers_it():
    request, answer = example_messages([EXAMPLE])
    assert request.to_wire() == {"role": "user", "content": "Add two"}
    assert answer.tool_calls == (ToolCall(id="example_0", name="add", arguments='{"by": 2}'),)


def test_no_examples_no_messages():
    assert example_messages([]) == []


def test_mappings_are_examples():
    assert parse_examples([{"request": "Add two", "tool": "add", "arguments": {"by": 2}}]) == (EXAMPLE,)


def test_an_example_without_arguments_is_named_by_position():
    with pytest.raises(InputError, match="example 2 must have exactly request, tool and arguments"):
        parse_examples([EXAMPLE, {"request": "x", "tool": "add"}])
