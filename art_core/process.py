"""The one launcher of child processes: own group, dies with us, stderr tail kept, exit code known, bounded stop.

Every command runs below a small guard process (``_guard.py``) that ends the command and all its descendants when the
command's main process ends, when it is told to terminate, or when our process dies in whatever way. A ``GuardedCommand``
may also be handed to code that spawns processes itself.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TextIO

from .errors import InputError

__all__ = ["Child", "GuardedCommand"]

TAIL_BYTES = 16_384
GRACE_SECONDS = 1.0
_GUARD = Path(__file__).with_name("_guard.py")


class GuardedCommand:
    """A command wrapped in its guard, with the pipe its stderr goes to.

    Spawn ``argv`` as the leader of a new session with ``stderr`` as its standard error, then call ``spawned()``. If it
    was never spawned, ``spawned()`` ends the reader too.
    """

    def __init__(self, command: Sequence[str], *, grace: float = GRACE_SECONDS) -> None:
        if not command:
            raise InputError("a child process needs a command, got an empty one")
        self.command = tuple(command)
        self._token = f"art-guard-{secrets.token_hex(8)}"
        self._buffer = bytearray()
        self._ended = threading.Event()
        read_end, write_end = os.pipe()
        self.stderr: TextIO = os.fdopen(write_end, "w", encoding="utf-8")
        """The write end of the pipe, to be handed to the spawning call."""
        self._grace = grace
        threading.Thread(target=self._read, args=(read_end,), name="stderr tail", daemon=True).start()

    @property
    def argv(self) -> list[str]:
        """What to execute in place of the command; the process that asks for it is the one the child dies with."""
        if os.name != "posix":
            return list(self.command)
        guard = [sys.executable, "-I", "-S", str(_GUARD)]
        return [*guard, str(os.getpid()), self._token, str(self._grace), *self.command]

    def spawned(self) -> None:
        """Close our copy of the pipe's write end, so that the tail ends when the child does. Idempotent."""
        self.stderr.close()

    def wait(self, timeout: float | None = None) -> bool:
        """Whether the child, its descendants and its guard have all ended, waiting up to ``timeout`` seconds."""
        return self._ended.wait(timeout)

    @property
    def exit_code(self) -> int | None:
        """The command's exit code once it has ended; negative for a signal; None while unknown."""
        _, mark, rest = bytes(self._buffer).decode("utf-8", "replace").rpartition(self._token)
        text = rest.strip()
        return int(text) if mark and text.lstrip("-").isdecimal() else None

    def stderr_tail(self, lines: int = 10) -> str:
        """The last lines the command wrote to stderr."""
        text = bytes(self._buffer).decode("utf-8", "replace").partition(f"\n{self._token}")[0]
        return "\n".join(text.rstrip().splitlines()[-lines:])

    def _read(self, read_end: int) -> None:
        with os.fdopen(read_end, "rb", buffering=0) as pipe:
            while chunk := pipe.read(65_536):
                kept = (self._buffer + chunk)[-TAIL_BYTES:]
                self._buffer = bytearray(kept)
        self._ended.set()


class Child:
    """A running child process, its stdout joined with its stderr unless a file is given.

    The calls block for a bounded time; use ``asyncio.to_thread`` where that matters.

    Raises:
        InputError: the working directory does not exist. A command that cannot be executed ends with exit code 127 and
            says so in its tail.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdout: IO[bytes] | None = None,
        grace: float = GRACE_SECONDS,
    ) -> None:
        if cwd is not None and not cwd.is_dir():
            raise InputError(f"working directory {str(cwd)!r} of {shlex.join(command)!r} does not exist")
        self.guarded = GuardedCommand(command, grace=grace)
        self._grace = grace
        try:
            self._process = subprocess.Popen(
                self.guarded.argv,
                stdin=subprocess.PIPE,
                stdout=self.guarded.stderr if stdout is None else stdout,
                stderr=self.guarded.stderr,
                env={**os.environ, **(env or {})},
                cwd=cwd,
                start_new_session=True,
            )
        finally:
            self.guarded.spawned()

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def wait(self, timeout: float | None = None) -> int | None:
        """The exit code, or None if the child still runs after ``timeout`` seconds."""
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        self.guarded.wait(self._grace)
        return self.guarded.exit_code if self.guarded.exit_code is not None else self._process.returncode

    def stop(self) -> int | None:
        """Close stdin, then TERM, then KILL, each after one grace; returns the exit code. Idempotent."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        if self.wait(self._grace) is None:
            self._signal(signal.SIGTERM)
            if self.wait(4 * self._grace) is None:
                self._signal(signal.SIGKILL)
        return self.wait(self._grace)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)
