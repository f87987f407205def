"""How every kind of run ends: in words whatever ended it, with the right error for the caller, and with nothing left open."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from art_core.errors import ArtError, InputError, TrainerError, describe

from .stopping import Stop

__all__ = ["failure", "how_it_ended", "release", "run_blocking"]

R = TypeVar("R")


async def how_it_ended(go: Callable[[], Awaitable[Stop]]) -> tuple[Stop, Exception | None]:
    """Run to the end; an error that escapes is kept, for the run to be recorded before it is raised again."""
    try:
        return await go(), None
    except Exception as escaped:  # noqa: BLE001 - whatever ends a run is recorded in it, then raised again
        return Stop(reason="error", text=describe(escaped)), escaped


def failure(error: Exception, step: int) -> ArtError:
    """What to raise for an error that ended a run after ``step``: one of ours as it is, any other as the trainer's."""
    if isinstance(error, ArtError):
        return error
    failed = TrainerError(f"the run failed after step {step}: {describe(error)}")
    failed.__cause__ = error
    return failed


async def release(*holders: object) -> None:
    """Let agents and policies that hold something over many rollouts, such as server sessions, let go of it, one after the other:
    the async ``close`` of each that has one is awaited."""
    for holder in holders:
        close = getattr(holder, "close", None)
        if inspect.iscoroutinefunction(close):
            await close()


def run_blocking(call: Callable[..., Coroutine[Any, Any, R]], *args: Any, **options: Any) -> R:
    """Call and wait, from code without an event loop.

    Raises:
        InputError: an event loop is running in this thread, as in a notebook.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(call(*args, **options))
    raise InputError(f"an event loop is running here, as in a notebook; write: result = await art.{call.__name__}(...)")
