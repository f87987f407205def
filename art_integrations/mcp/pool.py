"""Which session a rollout's calls go to: its own, one shared by all, or one borrowed from a pool.

Sessions start at their first call, a bounded number at a time. A session of a rollout's own that ends stays ended (its
state is gone); a shared or pooled one is started again for the next call. A call that may have reached the server is
never sent twice, unless the tool says that this changes nothing and the session is not a rollout's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from art_core.errors import InputError, ToolError

from .auth import TokenStore
from .catalog import Discovered, ListedTool
from .commands import Server
from .connection import Connection
from .hooks import Hooks
from .results import CallFailure, ToolResult, from_call, from_resource
from .surroundings import look_around
from .throttle import Throttle

__all__ = ["Isolation", "Lease", "PoolOptions", "Runtime"]

Isolation = Literal["rollout", "shared", "pool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """How sessions are started and used."""

    isolation: Isolation = "rollout"
    pool_size: int = 8
    max_starts: int = 8
    start_seconds: float = 30.0
    call_seconds: float = 30.0
    result_characters: int = 8_000
    hooks: Hooks = field(default_factory=Hooks)


class Runtime:
    """The sessions of one agent in one event loop."""

    def __init__(self, servers: Sequence[Server], options: PoolOptions) -> None:
        self.loop = asyncio.get_running_loop()
        self.options = options
        self.servers = {server.name: server for server in servers}
        self.discovering = asyncio.Lock()
        self.throttles = {
            server.name: Throttle(concurrency=server.concurrency, per_second=server.calls_per_second)
            for server in servers
        }
        self._tokens = {server.name: TokenStore() for server in servers}
        self._starts = asyncio.Semaphore(options.max_starts)
        self._places = asyncio.Semaphore(options.pool_size)
        self._slots: list[Slot] = []
        self._idle: list[Slot] = []

    async def connect(self, server: Server, workdir: Path | None) -> tuple[Connection, list[dict[str, Any]]]:
        """A started session and its tools (listing them lets the SDK check results against output schemas).

        Raises:
            InputError: it cannot be started, or does not list its tools.
        """
        connection = Connection(
            server,
            workdir=workdir,
            hooks=self.options.hooks,
            tokens=self._tokens[server.name],
            start_seconds=self.options.start_seconds,
        )
        async with self._starts:
            try:
                await connection.start()
                return connection, await connection.list_all("tools")
            except BaseException as error:
                await connection.close()
                if isinstance(error, CallFailure):
                    raise InputError(f"MCP server {server.name!r} does not list its tools: {error}") from error
                raise

    async def discover(self, server: Server, workdir: Path | None, *, resources: bool) -> Discovered:
        """What a server offers, asked in a session of its own."""
        found: dict[str, list[dict[str, Any]]] = {"resources": [], "resource_templates": []}
        async with self._visiting(server, workdir) as (connection, tools):
            if resources and "resources" in connection.capabilities:
                for kind in found:
                    try:
                        found[kind] = await connection.list_all(kind)
                    except CallFailure as failure:
                        if failure.kind != "protocol_error":  # a server need not know both kinds
                            raise InputError(
                                f"MCP server {server.name!r} does not list its {kind}: {failure}"
                            ) from failure
        return Discovered(
            server=server.name, tools=tools, resources=found["resources"], templates=found["resource_templates"]
        )

    async def look_around(self, server: Server, workdir: Path | None, tools: Sequence[ListedTool]) -> list[str]:
        """What a server has to ask about, see ``surroundings``; asked in a session of its own."""
        async with self._visiting(server, workdir) as (connection, _):
            return await look_around(connection, tools, timeout=self.options.call_seconds)

    @asynccontextmanager
    async def _visiting(
        self, server: Server, workdir: Path | None
    ) -> AsyncIterator[tuple[Connection, list[dict[str, Any]]]]:
        """A session of one's own with a server, and its tools."""
        connection, tools = await self.connect(server, workdir)
        try:
            yield connection, tools
        finally:
            await connection.close()

    async def borrow(self) -> Slot:
        """A slot for one rollout, to be given back; waits while the pool is in use."""
        isolation = self.options.isolation
        if isolation == "pool":
            await self._places.acquire()
        if isolation != "rollout" and self._idle:
            return self._idle.pop() if isolation == "pool" else self._idle[0]
        slot = Slot(self, restarts=True)
        self._slots.append(slot)
        if isolation == "shared":
            self._idle.append(slot)
        return slot

    def give_back(self, slot: Slot) -> None:
        if self.options.isolation == "pool":
            self._idle.append(slot)
            self._places.release()

    async def close(self) -> None:
        """End every session that outlives its rollout."""
        slots, self._slots, self._idle = self._slots, [], []
        await asyncio.gather(*(slot.close() for slot in slots))


class Slot:
    """At most one session per server, started when first needed."""

    def __init__(self, runtime: Runtime, *, restarts: bool, workdir: Path | None = None) -> None:
        self._runtime = runtime
        self._restarts = restarts
        self._workdir = workdir
        self._closed = False
        self._connections: dict[str, Connection] = {}
        self._locks = {name: asyncio.Lock() for name in runtime.servers}

    async def call(self, tool: ListedTool, arguments: dict[str, Any], timeout: float) -> ToolResult:
        """Call a tool once; a failure is a result too.

        Raises:
            ToolError: the server cannot be started.
        """
        async with self._runtime.throttles[tool.server].admit():
            result = await self._call(tool, arguments, timeout)
            if result.error == "crash" and self._restarts and tool.repeatable:
                return await self._call(tool, arguments, timeout)
            return result

    async def close(self) -> None:
        """End the sessions; one that is being started ends as soon as it has started."""
        self._closed = True
        await asyncio.gather(*(connection.close() for connection in self._connections.values()))

    async def _call(self, tool: ListedTool, arguments: dict[str, Any], timeout: float) -> ToolResult:
        connection = await self._connection(tool.server)
        limit = self._runtime.options.result_characters
        try:
            if tool.reads_resources:
                uri = arguments.get("uri")
                if not isinstance(uri, str) or not uri:
                    return ToolResult.failed("tool_error", f"uri must be the URI of a resource, got {uri!r}")
                return from_resource(await connection.read_resource(uri, timeout=timeout), limit=limit)
            return from_call(await connection.call_tool(tool.original, arguments, timeout=timeout), limit=limit)
        except CallFailure as failure:
            return ToolResult.failed(failure.kind, str(failure), limit=limit)

    async def _connection(self, name: str) -> Connection:
        async with self._locks[name]:
            current = self._connections.get(name)
            if current is not None and (current.alive or not self._restarts):
                return current
            if current is not None:
                await current.close()
            try:
                started, _ = await self._runtime.connect(self._runtime.servers[name], self._workdir)
            except InputError as error:
                raise ToolError(str(error)) from error
            if self._closed:
                await started.close()
                raise ToolError(f"the rollout ended while MCP server {name!r} was being started")
            self._connections[name] = started
            return started


class Lease:
    """A rollout's claim on sessions: nothing is started or borrowed before the first call."""

    def __init__(self, runtime: Runtime, workdir: Path | None) -> None:
        self._runtime = runtime
        self._own = runtime.options.isolation == "rollout"
        self._slot = Slot(runtime, restarts=False, workdir=workdir) if self._own else None
        self._borrowing = asyncio.Lock()
        self._released = False

    async def call(self, tool: ListedTool, arguments: dict[str, Any], timeout: float) -> ToolResult:
        """Call a tool; see ``Slot.call``. Raises ToolError once the rollout is over."""
        async with self._borrowing:
            if self._slot is None and not self._released:
                self._slot = await self._runtime.borrow()
        if self._slot is None or self._released:
            raise ToolError(f"tool {tool.name!r} was called after its rollout's environment was closed")
        return await self._slot.call(tool, arguments, timeout)

    async def release(self) -> None:
        """End the rollout's own sessions, or give the borrowed ones back."""
        self._released = True
        slot, self._slot = self._slot, None
        if slot is None:
            return
        if self._own:
            await slot.close()
        else:
            self._runtime.give_back(slot)
