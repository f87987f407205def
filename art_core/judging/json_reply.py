"""The JSON in what a language model said: behind thinking, in fences, amid prose, with the small mistakes that models make.

What is cut off is not completed: only brackets that close count.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from json_repair import repair_json

from art_core.errors import JudgeError

__all__ = ["json_in", "short"]

_THOUGHT = re.compile(r"<(think|thinking|reasoning|thought)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_OPEN_THOUGHT = re.compile(r"<(think|thinking|reasoning|thought)>", re.IGNORECASE)
_SHOWN = 200


def json_in(text: str, wanted: Callable[[Any], bool]) -> Any:
    """The last JSON object or list of a reply for which ``wanted`` holds, else the last one of any kind.

    Raises:
        JudgeError: there is none; in words that the model can be told.

    >>> json_in('Well: ```{"a": [1,]}``` {}', lambda value: "a" in value)
    {'a': [1]}
    """
    said = _THOUGHT.sub("", text)
    if match := _OPEN_THOUGHT.search(said):
        if "{" not in said[: match.start()]:
            raise JudgeError("the reply ends while it is still thinking; answer with the JSON object")
        said = said[: match.start()]
    if not said.strip():
        raise JudgeError("the reply is empty; answer with the JSON object")
    read = [value for value in map(_read, _candidates(said)) if value is not None]
    if not read:
        raise JudgeError(f"the reply holds no JSON that can be read: {short(said.strip())}")
    return next((value for value in reversed(read) if wanted(value)), read[-1])


def _candidates(text: str) -> Iterator[str]:
    """The balanced objects and lists of a text, outermost ones, in order."""
    position = 0
    while (start := _first(text, position)) is not None:
        end = _end(text, start)
        if end is None:
            position = start + 1
            continue
        yield text[start:end]
        position = end


def _first(text: str, position: int) -> int | None:
    found = [at for at in (text.find(mark, position) for mark in "{[") if at >= 0]
    return min(found, default=None)


def _end(text: str, start: int) -> int | None:
    """Behind the bracket that closes the one at ``start``; None if none does."""
    open_brackets: list[str] = []
    quoted = escaped = False
    for position in range(start, len(text)):
        mark = text[position]
        if quoted:
            quoted = escaped or mark != '"'
            escaped = mark == "\\" and not escaped
        elif mark == '"':
            quoted = True
        elif mark in "{[":
            open_brackets.append("}" if mark == "{" else "]")
        elif mark in "}]":
            if open_brackets.pop() != mark:
                return None
            if not open_brackets:
                return position + 1
    return None


def _read(text: str) -> Any:
    """The JSON value of a balanced text, small mistakes mended; None if it is none."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except ValueError:
        mended = repair_json(text, return_objects=True, skip_json_loads=True)
        return mended if isinstance(mended, dict | list) and mended else None


def _no_number(name: str) -> float:
    return math.nan


def short(value: Any) -> str:
    """A value as text, cut after 200 characters, for a message."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
