"""``bind_tools`` of four providers' models on a real graph: the policy is told, in one dialect, which tool it must call.

A scripted policy is not held to it; what it was told is in ``metadata["overridden"]``.
"""

from __future__ import annotations

import pytest

from tests.unit.rollout.reading import said

from .graphs import broken, get_time, graph_of_model
from .providers import MODELS
from .running import run

NAMED = {"type": "function", "function": {"name": "get_time"}}


async def told(provider, **options):
    """What a bound model tells the policy, and the trajectory."""
    bound = MODELS[provider]().bind_tools([get_time, broken], **options)
    trajectory = await run(graph_of_model(bound), [[("get_time", {"city": "Rome"})]])
    assert trajectory.error is None
    assert said(trajectory) == ['<tool_call>\n{"name": "get_time", "arguments": {"city": "Rome"}}\n</tool_call>']
    (made,) = trajectory.output["messages"][-1].tool_calls
    assert (made["name"], made["args"]) == ("get_time", {"city": "Rome"})
    assert [t.name for t in trajectory.turns[0].tools] == ["get_time", "broken"]
    return dict(trajectory.turns[0].metadata.get("overridden", {}))


@pytest.mark.parametrize("provider", MODELS)
async def test_no_choice_is_the_models(provider):
    assert await told(provider) == {}


OPENAI = [
    ("auto", {}),
    ("none", {"tool_choice": "none"}),
    ("any", {"tool_choice": "required"}),
    ("required", {"tool_choice": "required"}),
    (True, {"tool_choice": "required"}),
    (False, {}),
    ("get_time", {"tool_choice": NAMED}),
    (NAMED, {"tool_choice": NAMED}),
]
ANTHROPIC = [
    ("auto", {}),
    ("any", {"tool_choice": "required"}),
    ("get_time", {"tool_choice": NAMED}),
    ({"type": "auto"}, {}),
    ({"type": "none"}, {"tool_choice": "none"}),
    ({"type": "any"}, {"tool_choice": "required"}),
    ({"type": "tool", "name": "get_time"}, {"tool_choice": NAMED}),
    ({"type": "any", "disable_parallel_tool_use": True}, {"tool_choice": "required", "parallel_tool_calls": False}),
]
GEMINI = [
    ("auto", {}),
    ("none", {"tool_choice": "none"}),
    ("any", {"tool_choice": "required"}),
    (True, {"tool_choice": "required"}),
    ("get_time", {"tool_choice": NAMED}),
    (["get_time"], {"tool_choice": NAMED}),
    (["get_time", "broken"], {"tool_choice": "required"}),
    ({"mode": "any"}, {"tool_choice": "required"}),
    ({"mode": "any", "allowed_function_names": ["get_time"]}, {"tool_choice": NAMED}),
    ({"function_calling_config": {"mode": "none"}}, {"tool_choice": "none"}),
]


@pytest.mark.parametrize(("choice", "expected"), OPENAI, ids=str)
async def test_openais_choices(choice, expected):
    assert await told("openai", tool_choice=choice) == expected


@pytest.mark.parametrize(("choice", "expected"), ANTHROPIC, ids=str)
async def test_anthropics_choices(choice, expected):
    assert await told("anthropic", tool_choice=choice) == expected


@pytest.mark.parametrize(("choice", "expected"), GEMINI, ids=str)
async def test_geminis_choices(choice, expected):
    assert await told("gemini", tool_choice=choice) == expected


async def test_geminis_tool_config():
    config = {"function_calling_config": {"mode": "ANY", "allowed_function_names": ["get_time"]}}
    assert await told("gemini", tool_config=config) == {"tool_choice": NAMED}


@pytest.mark.parametrize("choice", ["auto", "any", "get_time", True], ids=str)
async def test_ollamas_models_drop_every_choice_themselves(choice):
    assert await told("ollama", tool_choice=choice) == {}


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_one_call_at_a_time(provider):
    assert await told(provider, parallel_tool_calls=False) == {"parallel_tool_calls": False}
