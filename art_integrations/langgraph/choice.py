"""Which of its tools a model may or must call, in the dialect of any provider, as OpenAI's ``tool_choice``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from art_core.errors import InputError

__all__ = ["chosen"]

_MODES = {"any": "required", "required": "required", "auto": "auto", "none": "none"}


def chosen(choice: Any, tools: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The arguments ``tools``, ``tool_choice`` and ``parallel_tool_calls`` that mean ``choice`` among ``tools`` (OpenAI's form);
    those that say nothing are missing. Where several tools, not all, are allowed, only these are offered.

    Raises:
        InputError: the choice has no known form, or names a tool that is not among them.
    """
    mode, names = _read(choice)
    offered = {tool["function"]["name"]: tool for tool in tools}
    if choice not in (None, False) and (mode is None or not offered.keys() >= set(names)):
        raise InputError(f"the graph asks its model for the tool {choice!r}, which is none of those it offers")
    wanted: dict[str, Any] = {}
    if mode == "required" and len(names) == 1:
        wanted["tool_choice"] = {"type": "function", "function": {"name": names[0]}}
    elif mode is not None and (tools or mode != "required"):
        wanted["tool_choice"] = mode
        if names:
            tools = [offered[name] for name in offered if name in names]
    if isinstance(choice, Mapping) and choice.get("disable_parallel_tool_use"):
        wanted["parallel_tool_calls"] = False
    return {"tools": list(tools), **wanted} if tools else wanted


def _read(choice: Any) -> tuple[str | None, list[str]]:
    """The mode, and the only tools that are allowed (none named: all)."""
    if choice is None or choice is False:
        return None, []
    if choice is True:
        return "required", []
    if isinstance(choice, str):
        return (_MODES[choice], []) if choice in _MODES else ("required", [choice])
    if isinstance(choice, list | tuple):
        return "required", list(choice)
    return _read_mapping(choice) if isinstance(choice, Mapping) else (None, [])


def _read_mapping(choice: Mapping[str, Any]) -> tuple[str | None, list[str]]:
    if isinstance(inner := choice.get("function_calling_config"), Mapping):
        return _read_mapping(inner)
    kind = choice.get("type")
    if kind in ("tool", "function"):
        return "required", [str(_name(choice))]
    if kind == "allowed_tools":
        allowed = choice.get("allowed_tools") or choice
        return _MODES.get(allowed.get("mode", "auto")), [str(_name(tool)) for tool in allowed.get("tools", ())]
    mode = kind or choice.get("mode")
    name = str(getattr(mode, "name", mode)).lower()
    return "auto" if name == "validated" else _MODES.get(name), list(choice.get("allowed_function_names") or ())


def _name(tool: Mapping[str, Any]) -> Any:
    function = tool.get("function")
    return function.get("name") if isinstance(function, Mapping) else tool.get("name")
