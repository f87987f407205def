"""Worked examples: requests and the calls that answer them, shown to the model before the real request."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from art_core.errors import InputError
from art_core.messages import Message, ToolCall

__all__ = ["Example", "example_messages", "parse_examples"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One worked example."""

    request: str
    tool: str
    arguments: Mapping[str, Any]


def example_messages(examples: Sequence[Example]) -> list[Message]:
    """Each example as a request and the call that answers it, as if it had been said before.

    The model's own template then writes the calls in just the markup the model has to produce.
    """
    messages = []
    for number, item in enumerate(examples):
        arguments = json.dumps(dict(item.arguments), ensure_ascii=False)
        call = ToolCall(id=f"example_{number}", name=item.tool, arguments=arguments)
        messages += [Message(role="user", content=item.request), Message(role="assistant", tool_calls=(call,))]
    return messages


def parse_examples(examples: Sequence[Example | Mapping[str, Any]]) -> tuple[Example, ...]:
    """Examples from records or from mappings with ``request``, ``tool`` and ``arguments``.

    Raises:
        InputError: one lacks a key or has another; names its position.
    """
    parsed = []
    for number, item in enumerate(examples, start=1):
        if isinstance(item, Mapping):
            if set(item) != {"request", "tool", "arguments"} or not isinstance(item["arguments"], Mapping):
                raise InputError(
                    f"example {number} must have exactly request, tool and arguments (an object), got {dict(item)!r}"
                )
            item = Example(request=str(item["request"]), tool=str(item["tool"]), arguments=item["arguments"])
        parsed.append(item)
    return tuple(parsed)
