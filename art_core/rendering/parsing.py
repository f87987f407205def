"""What a model wrote, read back as a message: reasoning, text, tool calls. Never raises; a call that cannot be read is data.

Each format is a function from text to pieces in the order they were written. A malformed call stays in the content as
the model wrote it, so that nothing is lost when the message is shown, judged or rendered again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from art_core.messages import MalformedCall, Message, ToolCall, ToolSpec

__all__ = ["FORMATS", "hermes_text", "parse_text", "split_reasoning"]


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    arguments: str
    id: str = ""


Piece = str | _Call | MalformedCall
Format = Callable[[str, Mapping[str, ToolSpec]], Iterator[Piece]]


def parse_text(
    text: str, tools: Sequence[ToolSpec], *, call_id_prefix: str, form: str = "hermes", opened: bool = False
) -> Message:
    """The assistant message in ``text`` (without its stop token).

    ``form`` is a key of ``FORMATS``; calls are looked for only if tools were offered. ``opened`` says that the prompt
    had already begun the thinking part. A call without an id gets one of at least nine letters and digits.
    """
    reasoning, rest = split_reasoning(text, opened=opened)
    pieces = list(FORMATS[form](rest, {tool.name: tool for tool in tools})) if tools else [rest]
    calls: list[ToolCall] = []
    for piece in pieces:
        if isinstance(piece, _Call):
            taken = {call.id for call in calls}
            own = f"{call_id_prefix}c{str(len(calls)).zfill(8 - len(call_id_prefix))}"
            call_id = piece.id if piece.id and piece.id not in taken else own
            calls.append(ToolCall(id=call_id, name=piece.name, arguments=piece.arguments))
    malformed = tuple(piece for piece in pieces if isinstance(piece, MalformedCall))
    content = "".join(
        piece if isinstance(piece, str) else piece.raw for piece in pieces if not isinstance(piece, _Call)
    )
    if calls:
        content = content.strip()
    return Message(
        role="assistant",
        content=None if calls and not content else content,
        tool_calls=tuple(calls),
        malformed_calls=malformed,
        reasoning=reasoning,
    )


def split_reasoning(text: str, *, opened: bool = False) -> tuple[str | None, str]:
    """The thinking part and the rest. Thinking that was never closed takes all of the text.

    >>> split_reasoning("<think>\\n2 + 2\\n</think>\\n\\n4")
    ('2 + 2', '4')
    """
    start = text.lstrip()
    if start.startswith("<think>"):
        start = start.removeprefix("<think>")
    elif not opened:
        return None, text
    inside, end, rest = start.partition("</think>")
    return inside.strip("\n") or None, rest.lstrip("\n") if end else ""


def hermes_text(message: Message) -> str:
    """How the fallback format writes an assistant message, its thinking part included."""
    parts = [f"<think>\n{message.reasoning}\n</think>\n\n"] if message.reasoning else []
    parts.append(message.text)
    for call in message.tool_calls:
        gap = "\n" if parts[-1] else ""
        name = json.dumps(call.name, ensure_ascii=False)
        parts.append(f'{gap}<tool_call>\n{{"name": {name}, "arguments": {call.arguments}}}\n</tool_call>')
    return "".join(parts)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def _read_json(text: str, start: int) -> tuple[Any, int]:
    """The JSON value at ``start`` (white space skipped) and where it ends.

    Raises:
        ValueError: there is none, in words the model can be told.
    """
    while start < len(text) and text[start].isspace():
        start += 1
    try:
        value, end = _DECODER.raw_decode(text, start)
        if _depth_above(value, 100):
            raise RecursionError
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not valid JSON: {error.msg} at character {error.pos - start}") from error
    except UnicodeEncodeError as error:
        raise ValueError("it holds half of a surrogate pair") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except ValueError as error:
        raise ValueError(f"it is not valid JSON: {error}") from error
    return value, end


def _depth_above(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        below = (item.values() if isinstance(item, dict) else item if isinstance(item, list) else () for item in level)
        level = [child for children in below for child in children]
    return bool(level)


def _call(value: Any, key: str = "arguments") -> _Call:
    """A call from its JSON object.

    Raises:
        ValueError: something is missing or of the wrong type, in words the model can be told.
    """
    if not isinstance(value, dict):
        raise ValueError('it must be a JSON object with "name" and "' + key + '"')
    name = value.get("name")
    if not isinstance(name, str) or not name:
        raise ValueError('"name" must be the name of a tool')
    if key not in value:
        raise ValueError(f'"{key}" is missing')
    arguments = value[key]
    if isinstance(arguments, str) and arguments.strip():
        text, (arguments, end) = arguments, _read_json(arguments, 0)
        if text[end:].strip():
            raise ValueError(f'"{key}" must be a JSON object')
    elif isinstance(arguments, str) or arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise ValueError(f'"{key}" must be a JSON object')
    call_id = value.get("id")
    return _Call(name, json.dumps(arguments, ensure_ascii=False), call_id if isinstance(call_id, str) else "")


def _bad(raw: str, error: Exception) -> MalformedCall:
    return MalformedCall(raw=raw, error=f"the tool call could not be read: {error}")


_OPEN, _CLOSE = "<tool_call>", "</tool_call>"


def _hermes(text: str, tools: Mapping[str, ToolSpec]) -> Iterator[Piece]:
    """``<tool_call>{"name": ..., "arguments": {...}}</tool_call>``, any number of them; the last may be left open."""
    position = 0
    while (start := text.find(_OPEN, position)) >= 0:
        yield text[position:start]
        position, piece = _hermes_call(text, start)
        yield piece
    yield text[position:]


def _hermes_call(text: str, start: int) -> tuple[int, _Call | MalformedCall]:
    body = start + len(_OPEN)
    close = text.find(_CLOSE, body)
    try:
        value, end = _read_json(text, body)
        rest = text[end:].lstrip()
        if rest and not rest.startswith(_CLOSE):
            raise ValueError("there is text after its JSON object")
        after = len(text) - len(rest) + (len(_CLOSE) if rest else 0)
        return after, _call(value)
    except ValueError as error:
        after = close + len(_CLOSE) if close >= 0 else len(text)
        return after, _bad(text[start:after], error)


_FUNCTION = re.compile(r"\s*<function=([^>\n]+)>(.*?)(?:</function>\s*|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\n]+)>\n?(.*?)\n?</parameter>\s*", re.DOTALL)


def _xml(text: str, tools: Mapping[str, ToolSpec]) -> Iterator[Piece]:
    """``<tool_call><function=name><parameter=key>value</parameter></function></tool_call>``; types come from the schema."""
    position = 0
    while (start := text.find(_OPEN, position)) >= 0:
        yield text[position:start]
        close = text.find(_CLOSE, start)
        position = close + len(_CLOSE) if close >= 0 else len(text)
        try:
            yield _xml_call(text[start + len(_OPEN) : close if close >= 0 else len(text)], tools)
        except ValueError as error:
            yield _bad(text[start:position], error)
    yield text[position:]


def _xml_call(body: str, tools: Mapping[str, ToolSpec]) -> _Call:
    found = _FUNCTION.fullmatch(body)
    if found is None:
        raise ValueError("it must hold <function=name>...</function>")
    name, inside = found.group(1).strip(), found.group(2)
    if _PARAMETER.sub("", inside).strip():
        raise ValueError("there is text outside <parameter=name>...</parameter>")
    schema = tools[name].parameters.get("properties") if name in tools else None
    arguments = {key.strip(): _xml_value(value, schema, key.strip()) for key, value in _PARAMETER.findall(inside)}
    return _call({"name": name, "arguments": arguments})


def _xml_value(text: str, schema: Any, key: str) -> Any:
    kind = schema.get(key) if isinstance(schema, Mapping) else None
    if isinstance(kind, Mapping) and kind.get("type") == "string":
        return text
    try:
        value, end = _read_json(text, 0)
    except ValueError:
        return text
    return text if text[end:].strip() else value


_PYTHON_TAG = "<|python_tag|>"


def _llama(text: str, tools: Mapping[str, ToolSpec]) -> Iterator[Piece]:
    """The whole reply is ``{"name": ..., "parameters": {...}}``, several joined by ``;``, after an optional python tag."""
    tagged = text.lstrip().startswith(_PYTHON_TAG)
    body = text.lstrip().removeprefix(_PYTHON_TAG) if tagged else text
    if not tagged and not re.match(r'\s*\{\s*"(?:name|type)"', body):
        yield text
        return
    calls: list[_Call] = []
    try:
        end = 0
        while True:
            value, end = _read_json(body, end)
            key = "arguments" if isinstance(value, dict) and "parameters" not in value else "parameters"
            calls.append(_call(value, key))
            if not body[end:].strip():
                break
            if not body[end:].lstrip().startswith(";"):
                raise ValueError("there is text after its JSON object")
            end = body.index(";", end) + 1
        yield from calls
    except ValueError as error:
        yield _bad(text, error)


_TOOL_CALLS = "[TOOL_CALLS]"


def _mistral(text: str, tools: Mapping[str, ToolSpec]) -> Iterator[Piece]:
    """``[TOOL_CALLS] [{"name": ..., "arguments": {...}, "id": ...}, ...]`` at the end of the reply."""
    before, marker, after = text.partition(_TOOL_CALLS)
    yield before
    if not marker:
        return
    try:
        value, end = _read_json(after, 0)
        if not isinstance(value, list):
            raise ValueError(f"{_TOOL_CALLS} must be followed by a JSON list")
        if after[end:].strip():
            raise ValueError("there is text after its JSON list")
        yield from [_call(item) for item in value]
    except ValueError as error:
        yield _bad(marker + after, error)


FORMATS: Mapping[str, Format] = {"hermes": _hermes, "xml": _xml, "llama": _llama, "mistral": _mistral}
"""The formats by name. Which one a template uses is found by reading back what it writes."""
