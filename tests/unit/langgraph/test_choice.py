"""Which tools a model may or must call, in every provider's words."""

from __future__ import annotations

import pytest

from art_core.errors import InputError
from art_integrations.langgraph.choice import chosen


def tool(name):
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


F, G, H = tool("f"), tool("g"), tool("h")
FUNCTION = {"type": "function", "function": {"name": "f"}}


def allowed(mode, *names):
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, {"tools": [F, G, H]}),
        ("any", {"tools": [F, G, H], "tool_choice": "required"}),
        ("f", {"tools": [F, G, H], "tool_choice": FUNCTION}),
        (["f"], {"tools": [F, G, H], "tool_choice": FUNCTION}),
        (["g", "f"], {"tools": [F, G], "tool_choice": "required"}),
        ({"mode": "ANY", "allowed_function_names": ["f", "h"]}, {"tools": [F, H], "tool_choice": "required"}),
        (allowed("required", "f", "g"), {"tools": [F, G], "tool_choice": "required"}),
        (allowed("auto", "f"), {"tools": [F], "tool_choice": "auto"}),
        ({"mode": "VALIDATED"}, {"tools": [F, G, H], "tool_choice": "auto"}),
        (
            {"type": "auto", "disable_parallel_tool_use": True},
            {"tools": [F, G, H], "tool_choice": "auto", "parallel_tool_calls": False},
        ),
    ],
    ids=str,
)
def test_a_choice_is_openais_and_only_allowed_tools_are_offered(choice, expected):
    assert chosen(choice, [F, G, H]) == expected


@pytest.mark.parametrize(("choice", "expected"), [("any", {}), ("auto", {"tool_choice": "auto"}), (None, {})], ids=str)
def test_without_tools_nothing_can_be_required(choice, expected):
    assert chosen(choice, []) == expected


@pytest.mark.parametrize(
    "choice", ["x", ["f", "x"], {"type": "tool", "name": "x"}, {"type": "web_search"}, {"mode": "some"}, 7], ids=str
)
def test_a_choice_that_means_nothing_here_is_told(choice):
    with pytest.raises(InputError, match=r"the graph asks its model for the tool .*, which is none of those it offers"):
        chosen(choice, [F, G])
