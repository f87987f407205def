"""Sinks: where the events of a run may also go (a tracker, a tracing service), and the set that keeps them harmless.

Each sink has a thread and a bounded queue of its own::

    run --put, never waits--> queue --> sink thread --> sink.on_...()

A sink that raises is reported once, a slow one loses events instead of slowing the run, every lost event is counted,
and closing takes a bounded time.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from art_core.errors import describe
from art_core.trajectory.trajectory import Trajectory

__all__ = ["Sink", "SinkSet"]


@runtime_checkable
class Sink(Protocol):
    """Receives the events of a run, one at a time, in order, on one thread of its own."""

    def on_run_start(self, info: Mapping[str, Any]) -> None:
        """The run begins; ``info`` is the resolved configuration and the run's name."""
        ...

    def on_rollout(self, trajectory: Trajectory) -> None:
        """A rollout ended, whatever its fate. Not to be changed."""
        ...

    def on_metrics(self, row: Mapping[str, Any]) -> None:
        """A row went into metrics.jsonl."""
        ...

    def on_run_end(self, summary: Mapping[str, Any]) -> None:
        """The run ended; ``summary`` is what summary.json holds."""
        ...

    def close(self) -> None:
        """Send what is left and free everything."""
        ...


class SinkSet:
    """Passes every event to every sink and never fails."""

    def __init__(
        self, sinks: Iterable[Sink], *, on_problem: Callable[[str], None], queue_size: int = 4096, close_s: float = 10.0
    ) -> None:
        """
        Args:
            on_problem: told one sentence about the first failure of each sink.
            queue_size: events a sink may lag behind before it loses the newest.
            close_s: seconds that ``close`` may take, all sinks together.
        """
        self._workers = [_Worker(sink, on_problem, queue_size) for sink in sinks]
        self._close_s = close_s

    def on_run_start(self, info: Mapping[str, Any]) -> None:
        self._put("on_run_start", info)

    def on_rollout(self, trajectory: Trajectory) -> None:
        self._put("on_rollout", trajectory)

    def on_metrics(self, row: Mapping[str, Any]) -> None:
        self._put("on_metrics", row)

    def on_run_end(self, summary: Mapping[str, Any]) -> None:
        self._put("on_run_end", summary)

    def close(self) -> dict[str, int]:
        """Let the sinks finish within the bound.

        Returns:
            Events lost by sink name; empty if every sink got everything.
        """
        deadline = time.monotonic() + self._close_s
        for worker in self._workers:
            worker.stop()
        for worker in self._workers:
            worker.join(deadline - time.monotonic())
        return self.lost

    @property
    def lost(self) -> dict[str, int]:
        """Events lost so far by sink name."""
        lost: dict[str, int] = {}
        for worker in self._workers:
            if worker.lost:
                lost[worker.name] = lost.get(worker.name, 0) + worker.lost
        return lost

    def _put(self, method: str, event: Any) -> None:
        for worker in self._workers:
            worker.put(method, event)


class _Worker:
    """One sink, its queue and its thread."""

    def __init__(self, sink: Sink, on_problem: Callable[[str], None], queue_size: int) -> None:
        self.name = type(sink).__name__
        self._sink = sink
        self._on_problem = on_problem
        self._limit = queue_size
        self._queue: queue.SimpleQueue[tuple[str, Any] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._lost = 0
        self._reported = False
        self._thread = threading.Thread(target=self._work, name=f"sink {self.name}", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> int:
        return self._lost

    def put(self, method: str, event: Any) -> None:
        if self._queue.qsize() < self._limit:
            self._queue.put((method, event))
        else:
            self._lose(1, "loses events: it is too slow")

    def stop(self) -> None:
        self._queue.put(None)

    def join(self, timeout_s: float) -> None:
        self._thread.join(max(0.0, timeout_s))
        if self._thread.is_alive():
            self._lose(max(0, self._queue.qsize() - 1), "did not close in time")

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            method, event = item
            self._call(method, event)
        self._call("close")

    def _call(self, method: str, *events: Any) -> None:
        try:
            getattr(self._sink, method)(*events)
        except Exception as error:  # noqa: BLE001 - foreign code; the loss is counted and told, the run goes on
            failed = "failed to close" if method == "close" else f"loses events: {method} failed"
            self._lose(len(events), f"{failed}: {describe(error)}")

    def _lose(self, events: int, what: str) -> None:
        with self._lock:
            self._lost += events
            first, self._reported = not self._reported, True
        if first:
            self._on_problem(f"sink {self.name} {what}; the run goes on")
