"""How every kind of run ends: in words whatever ended it, and with the right error for the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from art_core.errors import ArtError, InputError, TrainerError, describe

from .stopping import Stop

__all__ = ["failure", "how_it_ended", "run_blocking"]

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
