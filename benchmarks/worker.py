"""Both ends of a benchmark's child process: a side of a comparison computes alone in one, when it is told to.

The child says one line of JSON when it is ready and one for each line ``step`` on its standard input; it ends when its
input does. Standard library only, so that every side's Python can import it.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

__all__ = ["Child", "Parent", "peak_rss_gb"]


def peak_rss_gb() -> float:
    """The most memory this process has held, in units of 1e9 bytes.

    Where the kernel tells it per address space that figure is taken: the other one begins at what the parent held.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return round(int(line.split()[1]) * 1024 / 1e9, 3)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(most * (1 if sys.platform == "darwin" else 1024) / 1e9, 3)


class Parent:
    """The child's end. Whatever libraries print goes to standard error from now on; only answers go to the parent."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)

    def wait(self) -> bool:
        """Whether the next step is wanted; False at the end of the input."""
        return sys.stdin.readline() == "step\n"

    def answer(self, **figures: Any) -> None:
        """Send one line, with the peak memory so far."""
        print(json.dumps({**figures, "peak_rss_gb": peak_rss_gb()}), file=self._out, flush=True)


class Child:
    """The parent's end: starts the process, and ends it when the ``with`` block is left.

    Its standard error is kept in a file; the end of it is told if the process dies.
    """

    def __init__(self, command: Sequence[str | Path], environment: Mapping[str, str]) -> None:
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - closed by __exit__
        self._process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**os.environ, **environment},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def read(self) -> dict[str, Any]:
        """The child's next line.

        Raises:
            SystemExit: it has died; with the end of what it had to say.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            self._log.seek(0)
            raise SystemExit(f"{self._process.args} ended with {code}:\n{self._log.read()[-3000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def step(self) -> dict[str, Any]:
        """Have it make one step; returns its figures."""
        assert self._process.stdin is not None
        self._process.stdin.write("step\n")
        self._process.stdin.flush()
        return self.read()
