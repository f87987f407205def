"""One event loop in a thread of its own, for calls whose loop is busy waiting for them."""

from __future__ import annotations

import asyncio
import functools
import threading

__all__ = ["side_loop"]


@functools.cache
def side_loop() -> asyncio.AbstractEventLoop:
    """The loop; started when it is first asked for, and running until the process ends."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="art-side-loop", daemon=True).start()
    return loop
