"""Synchronous code beside an event loop: one thread per call, with the caller's context.

A call never waits for a free worker, so synchronous code that calls synchronous code, to any depth and in any number of
rollouts, cannot starve. A thread cannot be stopped from outside: a cancelled call is forgotten, and what it returns
later is handed to ``on_late``.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import WeakKeyDictionary

from .errors import describe

__all__ = ["call", "is_async", "size_executor"]

_numbers = itertools.count(1)
_sized: WeakKeyDictionary[asyncio.AbstractEventLoop, int] = WeakKeyDictionary()


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling ``function`` (a function, a partial, or an object with ``__call__``) makes a coroutine."""
    if inspect.iscoroutinefunction(function):
        return True
    return inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 - the method, not callability


async def call(
    function: Callable[..., Any], *args: Any, name: str, on_late: Callable[[Any], None] | None = None
) -> Any:
    """Call ``function`` and return its result: on the loop if it is async, else in a thread of its own.

    A sync function may return an awaitable, which is awaited on the loop. ``on_late`` gets the result (or exception)
    of a thread whose caller was cancelled before it ended; it is called in that thread.

    Raises:
        RuntimeError: the function tried to end the process (``SystemExit`` and the like) or raised ``StopIteration``.
    """
    if is_async(function):
        result = function(*args)
    else:
        result = await _in_thread(function, args, name, on_late)
    if not inspect.isawaitable(result):
        return result
    try:
        return await result
    except SystemExit as error:
        raise RuntimeError(f"{name} tried to end the process ({describe(error)})") from error


def _in_thread(
    function: Callable[..., Any], args: tuple[Any, ...], name: str, on_late: Callable[[Any], None] | None
) -> asyncio.Future[Any]:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(result: Any, error: Exception | None) -> None:
        if future.done():
            _late(on_late, result if error is None else error)
        elif error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    def work() -> None:
        result: Any = None
        error: Exception | None = None
        try:
            result = context.run(function, *args)
        except StopIteration as stop:
            error = RuntimeError(f"{name} raised StopIteration")
            error.__cause__ = stop
        except Exception as escaped:  # noqa: BLE001 - carried to the caller, who raises it
            error = escaped
        except BaseException as escaped:  # noqa: BLE001 - an exit in a worker thread must not end the process
            error = RuntimeError(f"{name} tried to end the process ({describe(escaped)})")
            error.__cause__ = escaped
        try:
            loop.call_soon_threadsafe(deliver, result, error)
        except RuntimeError:  # the loop was closed while the thread was at work
            _late(on_late, result if error is None else error)

    threading.Thread(target=work, name=f"{name} #{next(_numbers)}", daemon=True).start()
    return future


def _late(on_late: Callable[[Any], None] | None, outcome: Any) -> None:
    if on_late is not None:
        on_late(outcome)


def size_executor(workers: int) -> None:
    """Give the running loop a default executor of at least ``workers`` threads (made on demand).

    Frameworks run synchronous nodes there, and a node that waits for another node needs a second thread.
    """
    loop = asyncio.get_running_loop()
    if _sized.get(loop, 0) < workers:
        loop.set_default_executor(ThreadPoolExecutor(workers, thread_name_prefix="art-node"))
        _sized[loop] = workers
