"""The SDK's client of one hosted model, for whoever asks it: connections belong to an event loop, so there is one for each."""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING

from .providers import HostedModel

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["HostedClient"]


class HostedClient:
    """Made when a loop first asks for it. A request that failed for a passing reason is sent again ``retries`` times.

    Args:
        seconds: for one request, unless that says otherwise.
    """

    def __init__(self, hosted: HostedModel, *, retries: int = 4, seconds: float = 120.0) -> None:
        self._hosted, self._retries, self._seconds = hosted, retries, seconds
        self._of_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncOpenAI] = weakref.WeakKeyDictionary()

    def here(self) -> AsyncOpenAI:
        """That of the running loop."""
        from openai import AsyncOpenAI

        loop = asyncio.get_running_loop()
        if loop not in self._of_loops:
            self._of_loops[loop] = AsyncOpenAI(
                api_key=self._hosted.key,
                base_url=self._hosted.url,
                max_retries=self._retries,
                timeout=self._seconds,
            )
        return self._of_loops[loop]

    async def close(self) -> None:
        """Close the connections of the running loop."""
        if (client := self._of_loops.pop(asyncio.get_running_loop(), None)) is not None:
            await client.close()
