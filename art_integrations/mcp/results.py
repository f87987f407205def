"""What a call came to: the text the model is shown, the kind of failure, the structured value. Failures are data here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["CallFailure", "ErrorKind", "ToolResult", "cut", "from_call", "from_resource"]

ErrorKind = Literal[
    "tool_error",  # the tool says that it failed
    "protocol_error",  # the server refused the request or answered outside the protocol
    "invalid_result",  # the result contradicts the tool's own output schema
    "timeout",
    "crash",  # the server or the connection to it is gone
    "cancelled",  # the rollout was cancelled while the call ran
    "unknown_tool",
    "malformed",
]


class CallFailure(Exception):
    """A request to a server that came to nothing; becomes a ``ToolResult``, never leaves this package."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The outcome of one call."""

    text: str
    """What the model is shown, already cut to the length limit."""
    error: ErrorKind | None = None
    structured: Any = None
    """The server's ``structuredContent``, whole, on errors too."""

    @classmethod
    def failed(cls, kind: ErrorKind, message: str, *, limit: int = 8_000) -> ToolResult:
        return cls(text=cut(f"Error ({kind.replace('_', ' ')}): {message}", limit), error=kind)


def cut(text: str, limit: int) -> str:
    """The text, or its first ``limit`` characters and a marker that says how many were left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[... {len(text) - limit} more characters left out]"


def from_call(wire: Mapping[str, Any], *, limit: int) -> ToolResult:
    """The outcome from a ``tools/call`` result in wire form."""
    structured = wire.get("structuredContent")
    text = "\n".join(_block(block) for block in wire.get("content") or ())
    if not text and structured is not None:
        text = json.dumps(structured, ensure_ascii=False)
    failed = bool(wire.get("isError"))
    if not text:
        text = "Error: the tool failed without a message" if failed else "(no output)"
    return ToolResult(text=cut(text, limit), error="tool_error" if failed else None, structured=structured)


def from_resource(wire: Mapping[str, Any], *, limit: int) -> ToolResult:
    """The outcome from a ``resources/read`` result in wire form."""
    text = "\n".join(_resource(item) for item in wire.get("contents") or ())
    return ToolResult(text=cut(text or "(no content)", limit))


def _block(block: Mapping[str, Any]) -> str:
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text", ""))
    if kind == "resource":
        return _resource(block.get("resource") or {})
    if kind == "resource_link":
        return f"[link to {block.get('name') or 'a resource'}: {block.get('uri')}]"
    size = len(str(block.get("data", ""))) * 3 // 4
    return f"[{kind}: {block.get('mimeType', 'unknown type')}, about {size} bytes, not shown]"


def _resource(resource: Mapping[str, Any]) -> str:
    if isinstance(resource.get("text"), str):
        return str(resource["text"])
    size = len(str(resource.get("blob", ""))) * 3 // 4
    return (
        f"[resource {resource.get('uri')}: {resource.get('mimeType', 'unknown type')}, about {size} bytes, not shown]"
    )
