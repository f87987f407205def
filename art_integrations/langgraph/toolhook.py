"""Calls of tools in a rollout of a graph are recorded, and answered in the tool's place where that was asked for.

All ways to run a LangChain tool end in two methods of ``BaseTool``. ``install_tools`` wraps them once per process;
``uninstall_tools`` puts them back. Outside of such rollouts, and under ``no_capture()``, nothing changes. A raw thread of a rollout
is in it too: what must not run does not run there either.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from langchain_core.tools import BaseTool

from art_core.rollout.current import ancestor, current

from .substitutes import Substitute
from .tooling import RolloutTools

__all__ = ["install_tools", "uninstall_tools"]

_lock = threading.Lock()
_originals: dict[str, Any] = {}


def install_tools() -> None:
    """Wrap the methods; a second call does nothing."""
    with _lock:
        if not _originals:
            _originals.update(run=BaseTool.run, arun=BaseTool.arun)
            BaseTool.run = _run(BaseTool.run)  # type: ignore[method-assign]
            BaseTool.arun = _arun(BaseTool.arun)  # type: ignore[method-assign]


def uninstall_tools() -> None:
    """Put the methods back; without ``install_tools`` it does nothing."""
    with _lock:
        for name, original in _originals.items():
            setattr(BaseTool, name, original)
        _originals.clear()


def _run(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def wrapped(tool: BaseTool, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
        tools = _tools(tool)
        if tools is None:
            return original(tool, tool_input, *args, **kwargs)
        with tools.call(tool, tool_input, kwargs.get("tool_call_id")) as call:
            output = original(call.tool, tool_input, *args, **kwargs)
            call.ended(output)
            return output

    return wrapped


def _arun(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def wrapped(tool: BaseTool, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
        tools = _tools(tool)
        if tools is None:
            return await original(tool, tool_input, *args, **kwargs)
        with tools.call(tool, tool_input, kwargs.get("tool_call_id")) as call:
            output = await original(call.tool, tool_input, *args, **kwargs)
            call.ended(output)
            return output

    return wrapped


def _tools(tool: BaseTool) -> RolloutTools | None:
    """The tools of the rollout that this code is part of; None where the call is none of its agent's."""
    if isinstance(tool, Substitute):
        return None
    session = current() or ancestor()
    return None if session is None else RolloutTools.of(session)
