"""What a rollout holds open: its claim on server sessions and its directory. Rewards may look at both and make calls."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from art_core.errors import InputError
from art_core.messages import ToolSpec

from .catalog import Catalog, ListedTool
from .replay import Caller
from .results import ToolResult

__all__ = ["McpEnvironment"]


class McpEnvironment:
    """The still-open environment of one rollout.

    >>> async def reward(trajectory, scenario):
    ...     result = await trajectory.environment.call_tool("get", {"key": "total"})
    ...     return float(result.text == scenario.expected)
    """

    def __init__(self, catalog: Catalog, caller: Caller, *, workdir: Path | None, call_seconds: float) -> None:
        self.catalog = catalog
        self.workdir = workdir
        """The rollout's own directory, where a server uses ``{workdir}``; else None."""
        self._caller = caller
        self._call_seconds = call_seconds
        self._loop = asyncio.get_running_loop()

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools the model was offered."""
        return self.catalog.specs

    async def call_tool(
        self, name: str, arguments: dict[str, Any] | None = None, *, timeout: float | None = None
    ) -> ToolResult:
        """Call a tool in the rollout's session, by the model's or the server's name, withheld ones too.

        The call is not recorded and does not count against the rollout's limits. ``timeout`` is in seconds.

        Raises:
            InputError: no server has a tool of this name.
            ToolError: the server cannot be started.
        """
        tool = self.catalog.find_any(name)
        if tool is None:
            valid = ", ".join(tool.name for tool in self.catalog.tools)
            raise InputError(f"no MCP server has a tool {name!r}; valid names: {valid}")
        return await self.execute(tool, arguments or {}, timeout=timeout)

    def call_tool_sync(
        self, name: str, arguments: dict[str, Any] | None = None, *, timeout: float | None = None
    ) -> ToolResult:
        """``call_tool`` for a reward that is a plain function (it runs in a worker thread)."""
        return asyncio.run_coroutine_threadsafe(self.call_tool(name, arguments, timeout=timeout), self._loop).result()

    async def execute(self, tool: ListedTool, arguments: dict[str, Any], *, timeout: float | None = None) -> ToolResult:
        """Call a tool that was looked up already."""
        return await self._caller.call(tool, arguments, self._call_seconds if timeout is None else timeout)
