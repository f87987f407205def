"""Calls recorded in a file and answered from it later, with every server off.

A line is one JSON object: what a server offers, or one call with its result. A call is found again by tool, canonical
arguments and what came before: in sessions of a rollout's own every earlier call counts (they have state), in shared
ones only how often the same call was made before. The first recording of a call stands.

Kept answers are those of each rollout by its id: one that is made again gets what it got before, and goes on from there.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from art_core.errors import InputError, ToolError
from art_core.messages import canonical_json
from art_core.scenario import read_jsonl

from .catalog import Discovered, ListedTool
from .results import ToolResult

__all__ = ["CallLog", "Caller", "Keeping", "Recording", "Replaying"]


class Caller(Protocol):
    """What makes the calls of one rollout."""

    async def call(self, tool: ListedTool, arguments: dict[str, Any], timeout: float) -> ToolResult: ...

    async def release(self) -> None: ...


class CallLog:
    """The file, and what it held when it was opened plus what was added since."""

    def __init__(self, path: Path, *, reading: bool) -> None:
        self.path = path
        self.discovered: dict[str, Discovered] = {}
        self._results: dict[str, ToolResult] = {}
        if not reading:
            self._mend()
        if reading or path.exists():
            self._read()

    def find(self, key: str) -> ToolResult | None:
        return self._results.get(key)

    def add(self, key: str, tool: ListedTool, arguments: dict[str, Any], result: ToolResult) -> None:
        if key not in self._results:
            self._results[key] = result
            told = {"tool": tool.original, "server": tool.server, "arguments": arguments}
            self._append({"key": key, **told, **dataclasses.asdict(result)})

    def add_discovered(self, found: Discovered) -> None:
        if self.discovered.get(found.server) != found:
            self.discovered[found.server] = found
            self._append({"discovered": dataclasses.asdict(found)})

    def offer(self, server: str) -> Discovered:
        """What a server offered when it was recorded. Raises InputError if it was not."""
        if server not in self.discovered:
            known = ", ".join(sorted(self.discovered)) or "none"
            raise InputError(
                f"{self.path} holds no recording of MCP server {server!r}; servers recorded there: {known}"
            )
        return self.discovered[server]

    def _mend(self) -> None:
        """Drop a last line that was cut off while it was written."""
        data = self.path.read_bytes() if self.path.exists() else b""
        if not data.endswith(b"\n"):
            with self.path.open("r+b" if data else "ab") as file:
                file.truncate(data.rfind(b"\n") + 1)

    def _read(self) -> None:
        with _complaints(self.path):
            for row in read_jsonl(self.path):
                if "discovered" in row:
                    found = Discovered(**row["discovered"])
                    self.discovered[found.server] = found
                else:
                    result = ToolResult(text=row["text"], error=row["error"], structured=row["structured"])
                    self._results.setdefault(row["key"], result)

    def _append(self, row: dict[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


class _Keys:
    """The key of each call of one rollout, in order; ``rollout`` sets its keys apart from those of others."""

    def __init__(self, *, stateful: bool, rollout: str = "") -> None:
        self._stateful = stateful
        self._rollout = rollout
        self._history = hashlib.sha256(rollout.encode())
        self._made: Counter[str] = Counter()

    def next(self, tool: ListedTool, arguments: dict[str, Any]) -> str:
        call = canonical_json([tool.server, tool.original, arguments])
        self._made[call] += 1
        if not self._stateful:
            return hashlib.sha256(f"{self._rollout}{call}#{self._made[call]}".encode()).hexdigest()
        self._history.update(call.encode() + b"\n")
        return self._history.hexdigest()


class Recording:
    """Makes the calls and keeps them in the log."""

    def __init__(self, caller: Caller, log: CallLog, *, stateful: bool) -> None:
        self._caller = caller
        self._log = log
        self._keys = _Keys(stateful=stateful)

    async def call(self, tool: ListedTool, arguments: dict[str, Any], timeout: float) -> ToolResult:
        key = self._keys.next(tool, arguments)
        result = await self._caller.call(tool, arguments, timeout)
        self._log.add(key, tool, arguments, result)
        return result

    async def release(self) -> None:
        await self._caller.release()


class Keeping:
    """Answers from the log what the rollout called before; makes and keeps every other call.

    A session of the rollout's own has not seen the calls that the log answered, so they are made in it before the first
    one that is not in the log.
    """

    def __init__(self, caller: Caller, log: CallLog, *, rollout: str, stateful: bool) -> None:
        self._caller = caller
        self._log = log
        self._stateful = stateful
        self._keys = _Keys(stateful=stateful, rollout=rollout)
        self._unseen: list[tuple[ListedTool, dict[str, Any], float]] = []
        self._catching_up = asyncio.Lock()

    async def call(self, tool: ListedTool, arguments: dict[str, Any], timeout: float) -> ToolResult:
        key = self._keys.next(tool, arguments)
        result = self._log.find(key)
        if result is not None:
            if self._stateful:
                self._unseen.append((tool, arguments, timeout))
            return result
        async with self._catching_up:
            while self._unseen:
                await self._caller.call(*self._unseen.pop(0))
        result = await self._caller.call(tool, arguments, timeout)
        self._log.add(key, tool, arguments, result)
        return result

    async def release(self) -> None:
        await self._caller.release()


class Replaying:
    """Answers from the log; no server runs."""

    def __init__(self, log: CallLog, *, stateful: bool) -> None:
        self._log = log
        self._keys = _Keys(stateful=stateful)

    async def call(self, tool: ListedTool, arguments: dict[str, Any], timeout: float) -> ToolResult:
        """The recorded result. Raises ToolError for a call that was never recorded."""
        result = self._log.find(self._keys.next(tool, arguments))
        if result is None:
            call = f"{tool.original}({canonical_json(arguments)})"
            raise ToolError(f"{self._log.path} holds no recorded answer to {call} after the calls before it")
        return result

    async def release(self) -> None:
        """Nothing is held."""


@contextmanager
def _complaints(path: Path) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError) as error:
        raise InputError(f"{path} is not a recording of MCP calls: a line has no {error}") from error
