"""One session with one server, owned by one task from start to end.

The owner task enters the transport and the session and leaves them, so calls may come from any task, be cancelled at
any moment, and the close may be asked for from anywhere. A call is raced against the session's end and its time-out;
whatever goes wrong is a ``CallFailure`` that says what kind of failure it was.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import mcp
from mcp import ClientSession, StdioServerParameters, stdio_client, types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from art_core.errors import InputError, describe
from art_core.process import GuardedCommand

from .auth import Backoff, TokenStore, http_auth, http_headers
from .commands import WORKDIR, Server, expand
from .hooks import Hooks
from .results import CallFailure, ErrorKind

__all__ = ["Connection"]

START_SECONDS = 30.0
CLOSE_SECONDS = 8.0
LAST_WORDS_SECONDS = 2.0
SERVER_GRACE_SECONDS = 0.8
"""Below the SDK's own two seconds between TERM and KILL, so that the guard ends the whole tree first."""
PROGRESS_FACTOR = 10
"""A call that reports progress may take this many times its time-out."""

_SdkError: type[Exception] = getattr(mcp, "MCPError", None) or mcp.McpError  # type: ignore[attr-defined]
_TIMEOUT_CODES = frozenset({408, -32001})
_CLOSED_CODE = -32000
_STREAM_ENDED = "stream ended without a response"
_CONTRADICTIONS = ("structured content", "output schema", "Invalid schema for tool")
_owners: set[asyncio.Task[None]] = set()

logging.getLogger("mcp").addHandler(
    logging.NullHandler()
)  # every failure is told by us; no tracebacks of the SDK on stderr


class Connection:
    """A running session. ``start`` first; ``close`` always, from any task."""

    def __init__(
        self,
        server: Server,
        *,
        workdir: Path | None = None,
        hooks: Hooks | None = None,
        tokens: TokenStore | None = None,
        start_seconds: float = START_SECONDS,
    ) -> None:
        self.server = server
        self.capabilities: Mapping[str, Any] = {}
        self._workdir = workdir
        self._hooks = hooks or Hooks()
        self._tokens = tokens or TokenStore()
        self._start_seconds = start_seconds
        self._session: ClientSession | None = None
        self._guarded: GuardedCommand | None = None
        self._backoff: Backoff | None = None
        self._stop = asyncio.Event()
        self._ready = asyncio.Event()
        self._dead = asyncio.Event()
        self._cause: BaseException | None = None
        self._crashed = False
        self._owner: asyncio.Task[None] | None = None

    @property
    def alive(self) -> bool:
        """Whether a call would be sent."""
        return self._ready.is_set() and not (self._dead.is_set() or self._stop.is_set() or self._crashed)

    async def start(self) -> None:
        """Start the server or connect to it, and shake hands.

        Raises:
            InputError: it cannot be started; names the command or URL, the exit code and the last lines of stderr.
        """
        self._owner = asyncio.create_task(self._own(), name=f"mcp {self.server.name}")
        _owners.add(self._owner)
        self._owner.add_done_callback(_owners.discard)
        try:
            ended = await _first(self._start_seconds, self._ready, self._dead)
        except asyncio.CancelledError:
            await self._give_up()
            raise
        if self._ready.is_set():
            return
        await self._give_up()
        if ended and isinstance(self._cause, InputError):
            raise self._cause
        reason = describe(self._cause) if ended and self._cause else None
        raise InputError(f"MCP server {self.server.name!r} could not be started: {await self._start_failure(reason)}")

    async def list_all(self, kind: str) -> list[dict[str, Any]]:
        """Everything of a kind (``tools``, ``resources``, ``resource_templates``), all pages, in wire form."""
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        key = {"resource_templates": "resourceTemplates"}.get(kind, kind)
        while True:
            wire = await self._request(partial(self._page, kind, cursor), self._start_seconds)
            found += wire.get(key) or []
            following = wire.get("nextCursor")
            if not following or following == cursor:
                return found
            cursor = following

    async def call_tool(self, name: str, arguments: dict[str, Any], *, timeout: float) -> dict[str, Any]:
        """A ``tools/call`` result in wire form. Raises CallFailure."""
        return await self._request(
            lambda progress: self._live().call_tool(name, arguments, progress_callback=progress), timeout
        )

    async def read_resource(self, uri: str, *, timeout: float) -> dict[str, Any]:
        """A ``resources/read`` result in wire form. Raises CallFailure."""
        return await self._request(lambda _: self._live().read_resource(uri), timeout)  # type: ignore[arg-type,unused-ignore]

    async def close(self) -> None:
        """End the session and the server; bounded, idempotent."""
        self._stop.set()
        if self._owner is None:
            return
        await asyncio.wait({self._owner}, timeout=CLOSE_SECONDS)
        if not self._owner.done():
            await self._give_up()

    async def _page(self, kind: str, cursor: str | None, progress: Any) -> Any:
        params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
        return await getattr(self._live(), f"list_{kind}")(params=params)

    def _live(self) -> ClientSession:
        assert self._session is not None
        return self._session

    async def _own(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                streams = await stack.enter_async_context(self._transport())
                if self._guarded is not None:
                    self._guarded.spawned()
                session = ClientSession(streams[0], streams[1], **self._hooks.callbacks(self.server.name))
                self._session = await stack.enter_async_context(session)
                greeting = await self._session.initialize()
                self.capabilities = _wire(greeting).get("capabilities") or {}
                self._ready.set()
                try:
                    await self._stop.wait()
                finally:
                    self._dead.set()
        except asyncio.CancelledError as error:
            self._cause = self._cause or error
        except Exception as error:  # noqa: BLE001 - the server's failure is kept and told to whoever calls next
            self._cause = error
        finally:
            self._dead.set()
            if self._guarded is not None:
                self._guarded.spawned()

    def _transport(self) -> Any:
        server = self.server
        if server.url is None:
            return self._stdio()
        headers = http_headers(server)
        self._backoff = http_auth(server, self._tokens)
        if server.transport == "sse":
            return sse_client(server.url, headers=headers, auth=self._backoff)
        client = create_mcp_http_client(headers=headers, auth=self._backoff)
        return _closing(streamable_http_client(server.url, http_client=client), client)

    def _stdio(self) -> Any:
        what = f"MCP server {self.server.name!r}"
        command = [self._placed(word) for word in self.server.command]
        env = {name: self._placed(expand(value, what=what)) for name, value in self.server.env.items()}
        cwd = self._placed(self.server.cwd) if self.server.cwd else None
        self._guarded = GuardedCommand(command, grace=SERVER_GRACE_SECONDS)
        program, *arguments = self._guarded.argv
        parameters = StdioServerParameters(command=program, args=arguments, env=env or None, cwd=cwd)
        return stdio_client(parameters, errlog=self._guarded.stderr)

    def _placed(self, text: str) -> str:
        return text.replace(WORKDIR, os.fspath(self._workdir)) if self._workdir is not None else text

    async def _request(self, send: Callable[[Any], Awaitable[Any]], timeout: float) -> dict[str, Any]:
        """Send a request and wait for its result, the session's end or the time-out, whichever is first."""
        if not self.alive:
            raise CallFailure("crash", await self._epitaph("the server is not running any more"))
        clock = _Clock(timeout)
        task = asyncio.ensure_future(send(clock.on_progress))
        dead = asyncio.ensure_future(self._dead.wait())
        try:
            while not task.done() and not dead.done():
                held = self._backoff.waiting_until if self._backoff else 0.0
                remaining = clock.remaining(held)
                if remaining <= 0:
                    raise CallFailure("timeout", f"no answer within {timeout:g} seconds")
                await asyncio.wait({task, dead}, timeout=remaining, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise CallFailure("crash", await self._epitaph("the connection was closed during the call"))
            return _wire(await self._outcome(task))
        finally:
            dead.cancel()
            await _cancelled(task)

    async def _outcome(self, task: asyncio.Future[Any]) -> Any:
        """The result of a finished request; every failure as a CallFailure."""
        if task.cancelled():
            raise CallFailure("crash", await self._epitaph("the connection was lost during the call"))
        error = task.exception()
        if error is None:
            return task.result()
        kind = _kind_of(error)
        if kind != "crash":
            message = describe(error).removeprefix(f"{type(error).__name__}: ")
            raise CallFailure(kind, message + self._status()) from error
        self._crashed = self.server.url is None
        raise CallFailure(
            "crash", await self._epitaph("the connection to the server was lost during the call")
        ) from error

    async def _epitaph(self, reason: str) -> str:
        """What a model is told about a server that is gone: no paths, so that it is the same on every machine."""
        code, tail = await self._ending(lines=3)
        text = reason if code is None else f"the server has ended with exit code {code}"
        return f"{text}; its last words: {tail}" if tail else text

    async def _start_failure(self, reason: str | None) -> str:
        """What a person is told: command or URL, exit code, last lines of stderr. No reason means no answer in time."""
        late = f"no answer within {self._start_seconds:g} s"
        if self._guarded is None:
            return f"{self.server.shown}: {reason or late}{self._status()}"
        code, tail = await self._ending(lines=10)
        ended = reason is not None and code is not None  # without a reason it was we who ended it
        text = f"command {self.server.shown!r}" + (f" ended with exit code {code}" if ended else f": {reason or late}")
        return f"{text}; its last words: {tail}" if tail else f"{text}; it wrote nothing to stderr"

    def _status(self) -> str:
        """The HTTP status of the last answer if it was an error: the SDK does not always tell."""
        return f" (HTTP status {self._backoff.refused})" if self._backoff and self._backoff.refused else ""

    async def _ending(self, *, lines: int) -> tuple[int | None, str]:
        """Exit code and last stderr lines of the server process, as far as they are known."""
        if self._guarded is None:
            return None, ""
        if self._dead.is_set() or self._crashed:
            await asyncio.to_thread(self._guarded.wait, LAST_WORDS_SECONDS)
        return self._guarded.exit_code, self._guarded.stderr_tail(lines)

    async def _give_up(self) -> None:
        self._stop.set()
        if self._owner is not None and not self._owner.done():
            self._owner.cancel()
            await asyncio.wait({self._owner}, timeout=CLOSE_SECONDS)


@dataclass(slots=True)
class _Clock:
    """When a call is out of time: progress and held-back requests move the moment, up to a bound."""

    seconds: float
    deadline: float = 0.0
    latest: float = 0.0

    def __post_init__(self) -> None:
        now = asyncio.get_running_loop().time()
        self.deadline = now + self.seconds
        self.latest = now + PROGRESS_FACTOR * self.seconds

    async def on_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self.deadline = asyncio.get_running_loop().time() + self.seconds

    def remaining(self, held_until: float) -> float:
        now = asyncio.get_running_loop().time()
        return min(max(self.deadline, held_until + self.seconds), self.latest) - now


@asynccontextmanager
async def _closing(transport: Any, client: Any) -> AsyncIterator[Any]:
    """A transport whose HTTP client is ours to close."""
    async with client, transport as streams:
        yield streams


async def _first(timeout: float, *events: asyncio.Event) -> bool:
    """Whether one of the events was set within the time."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        done, _ = await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)
    finally:
        for wait in waits:
            wait.cancel()


async def _cancelled(task: asyncio.Future[Any]) -> None:
    """End a request and look at its exception, so that nobody warns about it later."""
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    if not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=1.0)


def _wire(result: Any) -> dict[str, Any]:
    wire: dict[str, Any] = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return wire


def _kind_of(error: BaseException) -> ErrorKind:
    if isinstance(error, _SdkError):
        code = error.error.code  # type: ignore[attr-defined]
        if code in _TIMEOUT_CODES:
            return "timeout"
        return "crash" if code == _CLOSED_CODE or _STREAM_ENDED in str(error) else "protocol_error"
    if isinstance(error, RuntimeError) and any(words in str(error) for words in _CONTRADICTIONS):
        return "invalid_result"
    if isinstance(error, OSError | anyio.ClosedResourceError | anyio.BrokenResourceError | anyio.EndOfStream):
        return "crash"
    return "protocol_error"
