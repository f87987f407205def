"""Requests and answers of the Responses API in the form of chat completions, as far as one has a word for the other's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["as_chat", "reply_of"]


def as_chat(body: Mapping[str, Any]) -> dict[str, Any]:
    """``messages`` and ``tools`` of a request; of a text completion (``prompt``) too. What has no form there is left out: reasoning
    items, tools of the provider."""
    messages: list[dict[str, Any]] = []
    if body.get("instructions"):
        messages.append({"role": "system", "content": str(body["instructions"])})
    asked = body.get("input", body.get("prompt"))
    for item in asked if isinstance(asked, list) else [asked]:
        if isinstance(item, str):
            messages.append({"role": "user", "content": item})
        elif isinstance(item, Mapping) and (message := _message(item)) is not None:
            messages.append(message)
    tools = [
        {"type": "function", "function": {name: value for name, value in tool.items() if name != "type"}}
        for tool in body.get("tools") or ()
        if isinstance(tool, Mapping) and tool.get("type") == "function"
    ]
    return {"messages": messages, "tools": tools}


def reply_of(answer: Mapping[str, Any]) -> dict[str, Any] | None:
    """The assistant's message of an answer; None if it has none."""
    text: list[str] = []
    calls: list[dict[str, Any]] = []
    for item in answer.get("output") or ():
        if item.get("type") == "message":
            text += [part["text"] for part in item["content"] if part.get("type") == "output_text"]
        elif item.get("type") == "function_call":
            calls.append(_call(item))
    if not text and not calls:
        return None
    return {"role": "assistant", "content": "".join(text) or None, "tool_calls": calls}


def _message(item: Mapping[str, Any]) -> dict[str, Any] | None:
    if "role" in item:
        content = item.get("content")
        return {"role": item["role"], "content": content if isinstance(content, str) else _text(content)}
    if item.get("type") == "function_call":
        return {"role": "assistant", "content": None, "tool_calls": [_call(item)]}
    if item.get("type") == "function_call_output":
        return {"role": "tool", "tool_call_id": item["call_id"], "content": _text(item.get("output"))}
    return None


def _call(item: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": item["name"], "arguments": item["arguments"]}
    return {"id": item["call_id"], "type": "function", "function": function}


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", f"[{part.get('type')}]")) for part in content or ())
