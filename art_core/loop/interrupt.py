"""Ctrl-C and SIGTERM while a run goes on: the first one asks it to stop after the step, the second one ends it at once.

Handlers are installed only in the main thread, and what was there before is put back.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

__all__ = ["Aborted", "Interrupt"]

T = TypeVar("T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Aborted(KeyboardInterrupt):
    """The run was interrupted a second time."""


class Interrupt:
    """Whether the user asked to stop. Use it as a context manager around the run, on the run's event loop."""

    def __init__(self, on_first: Callable[[], None]) -> None:
        """``on_first`` is called at the first request, to tell the user what happens next."""
        self._on_first = on_first
        self._asked = asyncio.Event()
        self._aborted = False
        self._task: asyncio.Task[Any] | None = None
        self._before: dict[signal.Signals, Any] = {}

    @property
    def asked(self) -> bool:
        """Whether the run is to stop."""
        return self._asked.is_set()

    def ask(self) -> None:
        """Ask to stop; the second time, abort the run's task."""
        if not self._asked.is_set():
            self._asked.set()
            self._on_first()
        elif self._task is not None:
            self._aborted = True
            self._task.cancel()

    async def unless(self, work: Coroutine[Any, Any, T]) -> T | None:
        """The result of ``work``, or None when it was given up because the user asked to stop."""
        task = asyncio.ensure_future(work)
        stop = asyncio.ensure_future(self._asked.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            stop.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        if threading.current_thread() is threading.main_thread():
            loop = asyncio.get_running_loop()
            for number in _SIGNALS:
                self._before[number] = signal.getsignal(number)
                try:
                    loop.add_signal_handler(number, self.ask)
                except NotImplementedError:  # a loop without signals: Ctrl-C is then a plain KeyboardInterrupt
                    del self._before[number]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._task = None
        for number, handler in self._before.items():
            asyncio.get_running_loop().remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if self._aborted and isinstance(error, asyncio.CancelledError):
            raise Aborted("the run was aborted") from error
