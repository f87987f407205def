"""What a server has to ask about, found by looking: its resources, its prompts, and what its harmless tools say without being given anything."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .catalog import ListedTool
from .connection import Connection
from .results import CallFailure, cut, from_call

__all__ = ["look_around"]

_LOOKS = re.compile(r"(?:list|read|get|show|describe|search)(?![a-z])")
_MOST_TOOLS = 8
_MOST_LISTED = 100
_CHARACTERS = 2_000


async def look_around(connection: Connection, tools: Sequence[ListedTool], *, timeout: float) -> list[str]:
    """One line or paragraph for each thing that is there.

    A tool is called, once, if it requires no argument and either says that it only reads or, where it says nothing, has a name that
    begins so (``list_tables``). A listing or a call that fails tells nothing.

    Args:
        tools: of this server, those that the model is offered.
        timeout: seconds for each call.
    """
    found: list[str] = []
    for kind, name in (("resources", "Resource"), ("prompts", "Prompt")):
        if kind in connection.capabilities:
            found += [_listed(name, item) for item in (await _all(connection, kind))[:_MOST_LISTED]]
    for tool in [tool for tool in tools if _harmless(tool)][:_MOST_TOOLS]:
        try:
            answer = from_call(await connection.call_tool(tool.original, {}, timeout=timeout), limit=_CHARACTERS)
        except CallFailure:
            continue
        if answer.error is None:
            found.append(f"{tool.name}() answers: {answer.text}")
    return found


async def _all(connection: Connection, kind: str) -> list[dict[str, Any]]:
    try:
        return await connection.list_all(kind)
    except CallFailure:
        return []


def _harmless(tool: ListedTool) -> bool:
    if tool.reads_resources or tool.spec.parameters.get("required"):
        return False
    hint = tool.annotations.get("readOnlyHint")
    return hint is True or (hint is None and _LOOKS.match(tool.original) is not None)


def _listed(kind: str, item: Mapping[str, Any]) -> str:
    name = item.get("uri") or item.get("name") or ""
    about = item.get("description") or item.get("title") or item.get("name") or ""
    taken = ", ".join(str(argument.get("name")) for argument in item.get("arguments") or ())
    return cut(
        f"{kind} {json.dumps(str(name), ensure_ascii=False)}{f' ({taken})' if taken else ''}: {about}", _CHARACTERS
    )
