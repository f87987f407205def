"""The only chat shapes used inside, and their conversion from and to the OpenAI wire form.

A ``Message`` is frozen and validated where it is made. Content is text, or a tuple of content-part dicts as they came
(images and the like are kept whole). ``to_wire`` of ``from_wire`` gives back an equal message.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from .errors import InputError

__all__ = ["Content", "MalformedCall", "Message", "Role", "ToolCall", "ToolSpec", "canonical_json", "content_text"]

Role = Literal["system", "developer", "user", "assistant", "tool"]
Content = str | tuple[Mapping[str, Any], ...] | None


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def content_text(content: Content) -> str:
    """The text of a message's content; parts that are not text become ``[image_url]``-style placeholders."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "".join(str(part["text"]) if part.get("type") == "text" else f"[{part.get('type')}]" for part in content)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A well-formed call: ``arguments`` is the text of a JSON object, as the model wrote it."""

    id: str
    name: str
    arguments: str

    def __post_init__(self) -> None:
        self.parsed()

    def parsed(self) -> dict[str, Any]:
        """The arguments as a dict.

        Raises:
            InputError: the text is not a JSON object.
        """
        try:
            value = json.loads(self.arguments)
        except ValueError as error:
            raise InputError(f"arguments of tool call {self.name!r} are not JSON: {self.arguments!r}") from error
        if not isinstance(value, dict):
            raise InputError(f"arguments of tool call {self.name!r} are not a JSON object: {self.arguments!r}")
        return value

    def to_wire(self) -> dict[str, Any]:
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> ToolCall:
        function = wire.get("function") or {}
        arguments = function.get("arguments")
        text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
        return cls(id=str(wire.get("id") or ""), name=str(function.get("name") or ""), arguments=text or "{}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MalformedCall:
    """A call the model tried to make and that could not be read: data, not an exception."""

    raw: str
    """What the model wrote, markup included."""
    error: str
    """Why it could not be read, in words the model can be told."""

    @classmethod
    def taken_apart(cls, name: Any, arguments: Any, error: str) -> MalformedCall:
        """One that a provider tells as a name and the text of its arguments; its markup is not known.

        >>> MalformedCall.taken_apart("look", "{", "not JSON").raw
        'look({)'
        """
        return cls(raw=f"{name}({arguments})", error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One chat message.

    >>> Message(role="user", content="hi").to_wire()
    {'role': 'user', 'content': 'hi'}
    """

    role: Role
    content: Content = None
    tool_calls: tuple[ToolCall, ...] = ()
    malformed_calls: tuple[MalformedCall, ...] = ()
    """Assistant only. Kept inside, never sent to a provider."""
    tool_call_id: str | None = None
    """Tool messages only: the call this answers."""
    name: str | None = None
    reasoning: str | None = None
    """Assistant only: the thinking part, where the model has one."""

    def __post_init__(self) -> None:
        if self.role not in get_args(Role):
            raise InputError(f"message role {self.role!r} is not one of {', '.join(get_args(Role))}")
        if self.role != "assistant" and (self.tool_calls or self.malformed_calls or self.reasoning):
            raise InputError(f"only an assistant message can carry tool calls or reasoning, not a {self.role} message")
        if self.role == "tool" and self.tool_call_id is None:
            raise InputError("a tool message needs tool_call_id: the id of the call it answers")

    @property
    def text(self) -> str:
        """The content as text."""
        return content_text(self.content)

    def to_wire(self) -> dict[str, Any]:
        """The OpenAI chat-completions form (``reasoning`` as ``reasoning_content``)."""
        content = list(map(dict, self.content)) if isinstance(self.content, tuple) else self.content
        wire: dict[str, Any] = {"role": self.role, "content": content}
        if self.tool_calls:
            wire["tool_calls"] = [call.to_wire() for call in self.tool_calls]
        if self.tool_call_id is not None:
            wire["tool_call_id"] = self.tool_call_id
        if self.name is not None:
            wire["name"] = self.name
        if self.reasoning is not None:
            wire["reasoning_content"] = self.reasoning
        return wire

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Message:
        """Read a message in OpenAI form.

        Raises:
            InputError: no role, an unknown role, or a tool call whose arguments are not a JSON object.
        """
        if not isinstance(wire, Mapping) or "role" not in wire:
            raise InputError(f"a message must be an object with a role, got {wire!r}")
        content = wire.get("content")
        if isinstance(content, Sequence) and not isinstance(content, str):
            content = tuple(
                part if isinstance(part, Mapping) else {"type": "text", "text": str(part)} for part in content
            )
        elif content is not None and not isinstance(content, str):
            raise InputError(f"message content must be text or a list of parts, got {content!r}")
        role = wire["role"]
        return cls(
            role=role,
            content=content,
            tool_calls=tuple(ToolCall.from_wire(call) for call in wire.get("tool_calls") or ())
            if role == "assistant"
            else (),
            tool_call_id=str(wire["tool_call_id"]) if wire.get("tool_call_id") is not None else None,
            name=wire.get("name"),
            reasoning=(wire.get("reasoning_content") or wire.get("reasoning")) if role == "assistant" else None,
        )

    @classmethod
    def reply_from_wire(cls, wire: Mapping[str, Any]) -> Message:
        """Read what a provider's model said: a call whose arguments are not a JSON object is malformed, the others stand.

        Raises:
            InputError: the content is neither text nor parts.
        """
        calls: list[ToolCall] = []
        malformed: list[MalformedCall] = []
        for one in wire.get("tool_calls") or ():
            try:
                calls.append(ToolCall.from_wire(one))
            except InputError as error:
                function = one.get("function") or {}
                malformed.append(MalformedCall.taken_apart(function.get("name"), function.get("arguments"), str(error)))
        said = cls.from_wire({**wire, "role": "assistant", "tool_calls": ()})
        return replace(said, tool_calls=tuple(calls), malformed_calls=tuple(malformed))

    def to_record(self) -> dict[str, Any]:
        """The stored form: the wire form plus what the wire cannot carry."""
        record = self.to_wire()
        if self.malformed_calls:
            record["malformed_calls"] = [{"raw": call.raw, "error": call.error} for call in self.malformed_calls]
        return record

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Message:
        message = cls.from_wire(record)
        malformed = tuple(
            MalformedCall(raw=item["raw"], error=item["error"]) for item in record.get("malformed_calls", ())
        )
        return replace(message, malformed_calls=malformed, reasoning=record.get("reasoning_content"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as it is offered to a model: ``parameters`` is a JSON Schema of type object."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})

    def __post_init__(self) -> None:
        if not self.name:
            raise InputError("a tool needs a name")

    def to_wire(self) -> dict[str, Any]:
        function = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": function}

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> ToolSpec:
        """Read a tool in OpenAI form.

        Raises:
            InputError: it is not of type ``function`` (provider built-ins cannot be served by a local policy).
        """
        if wire.get("type", "function") != "function" or not isinstance(wire.get("function"), Mapping):
            raise InputError(
                f"tool {wire.get('type')!r} is not a function tool; only function tools can be offered to the policy"
            )
        function = wire["function"]
        parameters = function.get("parameters") or {"type": "object", "properties": {}}
        return cls(
            name=str(function.get("name") or ""), description=function.get("description") or "", parameters=parameters
        )
