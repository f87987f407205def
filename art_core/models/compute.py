"""The one thread on which this process does heavy arithmetic.

Everything that runs a model does it here, for two reasons. Every thread that enters a parallel loop gets a pool of
workers of its own; two pools on one set of cores halve the speed of both. And what needs the processor takes turns:
long work calls ``give_way`` between its pieces, so that a decode step never waits for a whole training step.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, ParamSpec, TypeVar

__all__ = ["COMPUTE", "ComputeThread"]

P = ParamSpec("P")
R = TypeVar("R")


class ComputeThread:
    """Runs calls one after the other on a thread of its own, started when it is first needed.

    >>> ComputeThread().run(sum, [1, 2])
    3
    """

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def run(self, call: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call and wait for the result; what it raises is raised here. On the thread itself it is a plain call."""
        if threading.current_thread() is self._thread:
            return call(*args, **kwargs)
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="art-compute", daemon=True)
                self._thread.start()
        future: Future[R] = Future()
        self._waiting.put((future, partial(call, *args, **kwargs)))
        return future.result()

    def give_way(self) -> None:
        """Do what others are waiting for. Long work on the thread calls this between its pieces; elsewhere it does nothing."""
        while threading.current_thread() is self._thread:
            try:
                _do(*self._waiting.get_nowait())
            except queue.Empty:
                return

    def _serve(self) -> None:
        while True:
            _do(*self._waiting.get())


def _do(future: Future[Any], call: Callable[[], Any]) -> None:
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001 - handed to the caller, who is waiting for it
        future.set_exception(error)
    else:
        future.set_result(result)


COMPUTE = ComputeThread()
