"""Arguments of a chat model's call, in the dialect of its provider, as arguments of the policy's chat model.

==================  ==========================================================================================
what is meant       how providers' models say it
==================  ==========================================================================================
tools               OpenAI's ``{"type": "function", ...}``; Anthropic's ``{"name", "input_schema"}``; functions and classes
a tool must be      OpenAI ``"required"``; Anthropic ``{"type": "any"}``; ``"any"``
called
this tool must be   OpenAI ``{"type": "function", "function": {"name"}}``; Anthropic ``{"type": "tool", "name"}``; Gemini the name,
called              a list of names, or a ``tool_config``; see ``choice``
JSON of a schema    OpenAI ``response_format``; Anthropic ``output_config``; Gemini ``response_json_schema``; Ollama ``format``; all
                    of them with ``ls_structured_output_format``
any JSON            OpenAI ``response_format``; Gemini ``response_mime_type``; Ollama ``format="json"``
length              ``max_tokens``, ``max_completion_tokens``; Gemini ``max_output_tokens``; Ollama ``num_predict``
==================  ==========================================================================================

What is known to concern only the provider's own service (``_PROVIDERS_OWN``) is left out; an argument that nobody knows is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.utils.function_calling import convert_to_openai_function, convert_to_openai_tool

from art_core.errors import InputError

from .choice import chosen

__all__ = ["translate"]

_AS_THEY_ARE = frozenset(
    (
        *("stop", "stream", "stream_usage", "stream_options", "parallel_tool_calls", "n", "logprobs", "top_logprobs"),
        *("temperature", "top_p", "seed", "presence_penalty", "frequency_penalty", "logit_bias"),
    )
)
_NOT_OPENAIS = ("top_k", "min_p")
"""What OpenAI's client sends only as part of ``extra_body``."""
_LENGTHS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict")
_SHAPES = (
    "response_format",
    "output_config",
    "response_json_schema",
    "response_schema",
    "response_mime_type",
    "format",
)
_PROVIDERS_OWN = frozenset(
    (
        *(
            "user",
            "metadata",
            "store",
            "service_tier",
            "safety_identifier",
            "prompt_cache_key",
            "prompt_cache_retention",
        ),
        *(
            "reasoning",
            "reasoning_effort",
            "verbosity",
            "include",
            "truncation",
            "extra_headers",
            "extra_body",
            "extra_query",
        ),
        *("cache_control", "thinking", "effort", "betas", "mcp_servers", "inference_geo", "context_management"),
        *(
            "safety_settings",
            "thinking_config",
            "thinking_budget",
            "thinking_level",
            "cached_content",
            "generation_config",
        ),
        *("keep_alive", "options", "model", "timeout", "strict"),
    )
)


def translate(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call to the policy's model that mean what ``given`` means to a provider's.

    Raises:
        InputError: a tool that only the provider can run, a tool choice that means nothing here, or an unknown argument.
    """
    left = {name: value for name, value in given.items() if value is not None}
    wanted: dict[str, Any] = {name: left.pop(name) for name in _AS_THEY_ARE & left.keys()}
    tools = [_tool(tool) for tool in left.pop("tools", None) or ()]
    choices = [left.pop(name) for name in ("tool_choice", "tool_config") if name in left]
    wanted |= chosen(next(iter(choices), None), tools)
    if beyond := {name: left.pop(name) for name in _NOT_OPENAIS if name in left}:
        wanted["extra_body"] = beyond
    lengths = [left.pop(name) for name in _LENGTHS if name in left]
    if lengths:
        wanted["max_tokens"] = lengths[0]
    shape = _shape(left.pop("ls_structured_output_format", None), {n: left.pop(n) for n in _SHAPES if n in left})
    if shape is not None:
        wanted["response_format"] = shape
        for tool in wanted.get("tools", ()):  # OpenAI's SDK parses an answer beside tools only if these are strict
            tool["function"] = {**tool["function"], "strict": True}
    unknown = sorted(left.keys() - _PROVIDERS_OWN)
    if unknown:
        raise InputError(
            f"the graph calls its model with {unknown[0]} = {left[unknown[0]]!r}, which the trained model does not know; "
            "leave it out there, or keep that model out of the training with train="
        )
    return wanted


def _tool(tool: Any) -> dict[str, Any]:
    if isinstance(tool, Mapping):
        if tool.get("type") == "function" and isinstance(tool.get("function"), Mapping):
            return dict(tool)
        if not {"input_schema", "parameters", "title"} & tool.keys():
            raise InputError(
                f"the graph gives its model the tool {dict(tool)!r}, which only the provider can run; give it a tool of the "
                "graph's own, or keep that model out of the training with train="
            )
    converted: dict[str, Any] = convert_to_openai_tool(tool)
    return converted


def _shape(structured: Mapping[str, Any] | None, shapes: Mapping[str, Any]) -> Any:
    """What ``response_format`` must be, from any of the ways to ask for JSON."""
    if "response_format" in shapes:
        return shapes["response_format"]
    if shapes.get("format") == "json" or ("response_mime_type" in shapes and len(shapes) == 1):
        return {"type": "json_object"}
    if shapes and structured and structured.get("schema") is not None:
        schema = structured["schema"]
        tool = isinstance(schema, Mapping) and schema.get("type") == "function"  # Anthropic's models give the tool
        function = schema["function"] if tool else convert_to_openai_function(schema)
        return {"type": "json_schema", "json_schema": {"name": function["name"], "schema": function["parameters"]}}
    schema = shapes.get("response_json_schema") or shapes.get("response_schema") or shapes.get("format")
    if isinstance(schema, Mapping):
        return {"type": "json_schema", "json_schema": {"name": schema.get("title", "reply"), "schema": dict(schema)}}
    return None
