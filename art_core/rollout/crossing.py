"""Crossing: how calls come to a rollout's event loop from other tasks, threads and loops, until the rollout is over.

A rollout belongs to the loop its session was made in. Calls from elsewhere are submitted to that loop and never block it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError as FutureCancelled
from typing import Any, TypeVar

from art_core.errors import InputError, LimitReached

from .side_loop import side_loop

__all__ = ["Crossing"]

T = TypeVar("T")


class Crossing:
    """The way to the loop it was made in, or, made outside of one, to the first that asks with ``on_loop``.

    Args:
        name: of the rollout; its calls are named after it.
        close_seconds: how long ``close`` waits at most.
        on_blocking: told of every call that keeps the loop waiting.
    """

    def __init__(self, name: str, *, close_seconds: float, on_blocking: Callable[[], None]) -> None:
        self._name = name
        self._close_seconds = close_seconds
        self._on_blocking = on_blocking
        self._closed: LimitReached | None = None
        self._foreign: set[asyncio.Task[Any]] = set()
        self._loop = _running_loop()
        self._side: asyncio.AbstractEventLoop | None = None
        """Where a call is answered while it keeps ``_loop`` waiting."""

    async def on_loop(self, make: Callable[[], Awaitable[T]]) -> T:
        """Await ``make()`` on the rollout's loop, from whatever loop the caller runs in.

        Raises:
            LimitReached: the caller is elsewhere, and the rollout is over or ended before the answer came.
        """
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        if loop is self._loop or loop is self._side:
            return await make()
        future = asyncio.run_coroutine_threadsafe(self._tracked(make), self._loop)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if self._closed is not None:
                raise self.over() from None
            raise

    def from_thread(self, make: Callable[[], Awaitable[T]]) -> T:
        """Run ``make()`` on the rollout's loop and wait for it in this thread.

        In the thread of that loop itself, which waits meanwhile, it runs on another one: the call is answered, but all
        rollouts of the loop stand still; ``on_blocking`` is told.

        Raises:
            InputError: the session was made outside of an event loop.
            LimitReached: the rollout is over, or ended before the answer came.
        """
        if self._loop is None:
            raise InputError("the session has no event loop yet; make it inside one, as rollout does")
        self.check_open()
        loop = self._loop
        if _running_loop() is loop:
            self._on_blocking()
            loop = self._side = side_loop()
        coroutine = self._tracked(make)
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        except RuntimeError as error:  # the loop is closed
            coroutine.close()
            raise self.over() from error
        try:
            return future.result()
        except FutureCancelled as error:
            raise self.over() from error

    async def close(self, reason: LimitReached) -> None:
        """Let no call through any more: those in flight from other threads are cancelled, later ones raise ``reason``."""
        if tasks := self.shut(reason):
            await asyncio.wait(tasks, timeout=self._close_seconds)

    def shut(self, reason: LimitReached) -> set[asyncio.Task[Any]]:
        """The same without waiting for the cancelled calls, which are returned; in the thread of the rollout's loop."""
        self._closed = self._closed or reason
        tasks = set(self._foreign)
        for task in tasks:
            task.cancel()
        return tasks

    def check_open(self) -> None:
        """
        Raises:
            LimitReached: the rollout is over.
        """
        if self._closed is not None:
            raise self.over()

    def over(self) -> LimitReached:
        """What a call is told when the rollout is over."""
        closed = self._closed or LimitReached("cancelled", "its event loop was closed")
        return LimitReached(closed.stop_reason, f"the rollout is over: {closed}")

    async def _tracked(self, make: Callable[[], Awaitable[T]]) -> T:
        self.check_open()
        task = asyncio.current_task()
        assert task is not None
        task.set_name(f"call of rollout {self._name}")
        self._foreign.add(task)
        try:
            return await make()
        finally:
            self._foreign.discard(task)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
