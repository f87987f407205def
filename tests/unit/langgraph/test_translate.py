"""A provider's arguments become those of the policy's model, one by one."""

from __future__ import annotations

import pytest

from art_core.errors import InputError
from art_integrations.langgraph.translate import translate

TOOL = {
    "type": "function",
    "function": {"name": "f", "description": "Do.", "parameters": {"type": "object", "properties": {}}},
}
NAMED = {"type": "function", "function": {"name": "f"}}
SCHEMA = {"title": "City", "type": "object", "properties": {"name": {"type": "string"}}}
SHAPED = {"type": "json_schema", "json_schema": {"name": "City", "schema": SCHEMA}}


@pytest.mark.parametrize(
    "tool",
    [TOOL, {"name": "f", "description": "Do.", "input_schema": {"type": "object", "properties": {}}}],
    ids=["openai", "anthropic"],
)
def test_a_tool_in_any_dialect_is_openais(tool):
    assert translate({"tools": [tool]}) == {"tools": [TOOL]}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ("any", "required"),
        (True, "required"),
        ({"type": "any"}, "required"),
        ({"type": "auto"}, "auto"),
        (NAMED, NAMED),
        ({"type": "tool", "name": "f"}, NAMED),
        ("f", NAMED),
    ],
    ids=str,
)
def test_a_tool_choice_in_any_dialect_is_openais(choice, expected):
    assert translate({"tools": [TOOL], "tool_choice": choice})["tool_choice"] == expected


@pytest.mark.parametrize("choice", [None, False])
def test_no_tool_choice_is_none(choice):
    assert "tool_choice" not in translate({"tools": [TOOL], "tool_choice": choice})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"response_format": SHAPED}, SHAPED),
        ({"format": SCHEMA}, SHAPED),
        ({"response_json_schema": SCHEMA, "response_mime_type": "application/json"}, SHAPED),
        ({"format": "json"}, {"type": "json_object"}),
        ({"response_mime_type": "application/json"}, {"type": "json_object"}),
    ],
    ids=["openai", "ollama", "gemini", "ollama, any", "gemini, any"],
)
def test_json_that_is_asked_for_is_a_response_format(given, expected):
    assert translate(given) == {"response_format": expected}


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict"])
def test_a_length_has_one_name(name):
    assert translate({name: 5}) == {"max_tokens": 5}


def test_what_concerns_only_the_providers_service_is_left_out():
    assert translate({"thinking": {"type": "enabled"}, "safety_settings": [], "keep_alive": "5m"}) == {}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "which only the provider can run"),
        ({"tools": [{"google_search": {}}]}, "which only the provider can run"),
        ({"tools": [TOOL], "tool_choice": "g"}, "asks its model for the tool 'g', which is none of those it offers"),
        ({"quantum": 3}, "calls its model with quantum = 3, which the trained model does not know"),
    ],
    ids=["anthropic's search", "google's search", "a tool that is not there", "unknown"],
)
def test_what_cannot_be_done_is_told_with_the_cure(given, message):
    with pytest.raises(InputError, match=message):
        translate(given)


def test_tools_beside_a_response_format_are_strict_as_openais_client_wants_them():
    strict = {"type": "function", "function": {**TOOL["function"], "strict": True}}
    assert translate({"tools": [TOOL], "response_format": SHAPED}) == {"tools": [strict], "response_format": SHAPED}


def test_what_openais_client_does_not_know_is_sent_in_its_body():
    assert translate({"top_k": 4, "min_p": 0.1, "top_p": 0.5}) == {
        "top_p": 0.5,
        "extra_body": {"top_k": 4, "min_p": 0.1},
    }
