"""How fast one server is called, over all rollouts: calls in flight at once, and calls started per second."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

__all__ = ["Throttle"]


class Throttle:
    """Admits calls in the order they come. Belongs to one event loop."""

    def __init__(self, *, concurrency: int | None = None, per_second: float | None = None) -> None:
        self._slots = asyncio.Semaphore(concurrency) if concurrency else None
        self._interval = 1 / per_second if per_second else 0.0
        self._next = 0.0

    @asynccontextmanager
    async def admit(self) -> AsyncIterator[None]:
        """Wait for a turn; the body is the call."""
        async with AsyncExitStack() as stack:
            if self._slots is not None:
                await stack.enter_async_context(self._slots)
            if self._interval:
                now = asyncio.get_running_loop().time()
                start = max(now, self._next)
                self._next = start + self._interval
                await asyncio.sleep(start - now)
            yield
