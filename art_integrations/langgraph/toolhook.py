"""Calls of tools in a rollout of a graph are recorded, and answered in the tool's place where that was asked for.

All ways to run a LangChain tool end in two methods of ``BaseTool``. ``install_tools`` wraps them once per process;
``uninstall_tools`` puts them back. Outside of such rollouts, and under ``no_capture()``, nothing changes. A raw thread of a rollout
is in it too: what must not run does not run there either.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from langchain_core.tools import BaseTool

from art_core.rollout.current import ancestor, current
from art_core.rollout.patching import Patches

from .substitutes import Substitute
from .tooling import RolloutTools

__all__ = ["install_tools", "uninstall_tools"]


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


_patches = Patches(((BaseTool, "run", _run), (BaseTool, "arun", _arun)))
install_tools, uninstall_tools = _patches.install, _patches.uninstall
