"""What stands between us and a child: it lives exactly as long as the child, and the child no longer than us.

Run by file path with ``python -I -S`` (standard library alone, a few milliseconds), arguments: our process id, a token
for its last line, the grace in seconds, the command. The child inherits stdin, stdout and stderr. Two processes guard
it: the *outer* one, which whoever spawned us knows, may signal and may even kill; and the *inner* one, in a session of
its own, which is the child's parent and the reaper of all below. When the child ends, when we or the outer guard die
(``kill -9`` included) or when the outer guard is told to terminate, every descendant is ended, those that left the
process group too. The last line on stderr names the child's exit code.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from typing import NoReturn

LINUX = sys.platform == "linux"
POLL_SECONDS = 0.2
SET_DEATH_SIGNAL, SET_REAPER = 1, 36
CANNOT_EXECUTE = 127
SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def prctl(option: int, value: int) -> None:
    """Linux ``prctl`` with one argument; nothing elsewhere."""
    if LINUX:
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def execute(command: list[str], guard: int) -> NoReturn:
    """In the forked child: become the command, and die with the guard."""
    prctl(SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != guard:
        os._exit(CANNOT_EXECUTE)
    for name in (*SIGNALS, signal.SIGPIPE):
        signal.signal(name, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"cannot execute {command[0]!r}: {error.strerror}\n".encode())
    os._exit(CANNOT_EXECUTE)


def descendants() -> list[int]:
    """Process ids of everything below the guard."""
    if not LINUX:
        return []
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry))
    found, queue = [], [os.getpid()]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def reap(child: int = 0) -> tuple[bool, int | None]:
    """Collect ended children: whether any are left, and the exit code of ``child`` if it was among them."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False, code
        if pid == 0:
            return True, code
        if pid == child:
            code = os.waitstatus_to_exitcode(status)


def end(number: int, seconds: float, child: int = 0) -> int | None:
    """Signal every descendant until none is left or the time is up; the exit code of ``child`` if it ended now."""
    deadline = time.monotonic() + seconds
    told: set[int] = set()
    code = None
    while True:
        left, found = reap(child)
        code = found if found is not None else code
        if not left or time.monotonic() >= deadline:
            return code
        for pid in set(descendants()) - told:
            told.add(pid)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        time.sleep(POLL_SECONDS / 10)


def let_go() -> None:
    """Hold neither end of the child's pipes open."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)


class Watch:
    """Wakes for signals and for the death of processes."""

    def __init__(self, *pids: int) -> None:
        self.told_to_stop = False
        self.pids = pids
        self.pipe, wake_end = os.pipe()
        os.set_blocking(self.pipe, False)
        os.set_blocking(wake_end, False)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        for name in SIGNALS:
            signal.signal(name, self.on_signal)
        self.poller = select.poll()
        self.poller.register(self.pipe, select.POLLIN)
        self.polls = not all(self.register(pid) for pid in pids)

    def on_signal(self, number: int, frame: object) -> None:
        self.told_to_stop |= number != signal.SIGCHLD

    def register(self, pid: int) -> bool:
        """Whether the process's death wakes the poller; otherwise it is looked for a few times a second."""
        try:
            self.poller.register(os.pidfd_open(pid), select.POLLIN)
        except (AttributeError, OSError):
            return False
        return True

    def over(self) -> bool:
        """Whether it is time to end the child."""
        return self.told_to_stop or not all(exists(pid) for pid in self.pids)

    def pause(self) -> None:
        self.poller.poll(POLL_SECONDS * 1000 if self.polls else None)
        with contextlib.suppress(BlockingIOError):
            os.read(self.pipe, 4096)


def exists(pid: int) -> bool:
    """Whether a process runs; one that ended and waits for its parent does not."""
    try:
        os.kill(pid, 0)
        if LINUX:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
    return True


def inner(parent: int, outer: int, grace: float, command: list[str]) -> int:
    """Run the command; its exit code once nothing of it is left."""
    os.setsid()
    watch = Watch(parent, outer)
    guard = os.getpid()
    child = os.fork()
    if child == 0:
        execute(command, guard)
    let_go()
    code: int | None = None
    while True:
        _, code = reap(child)
        if code is not None or watch.over():
            break
        watch.pause()
    for number in (signal.SIGTERM, signal.SIGKILL):
        found = end(number, grace, child)
        code = found if code is None else code
    return CANNOT_EXECUTE if code is None else code


def main(arguments: list[str]) -> NoReturn:
    parent, token, grace, *command = arguments
    prctl(SET_REAPER, 1)
    outer = os.getpid()
    pid = os.fork()
    if pid == 0:
        prctl(SET_REAPER, 1)
        code = inner(int(parent), outer, float(grace), command)
        with contextlib.suppress(OSError):
            os.write(2, f"\n{token} {code}\n".encode())
        if not LINUX:
            os.killpg(0, signal.SIGKILL)
        os._exit(code if code >= 0 else 128 - code)
    for name in SIGNALS[1:]:
        signal.signal(name, lambda *_: os.kill(pid, signal.SIGTERM))
    let_go()
    os.dup2(1, 2)
    _, status = os.waitpid(pid, 0)
    end(signal.SIGKILL, float(grace))
    os._exit(os.waitstatus_to_exitcode(status) % 256)


if __name__ == "__main__":
    main(sys.argv[1:])
