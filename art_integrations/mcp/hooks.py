"""Answers to what a server asks of its client while a tool runs: elicitation and sampling. Declined unless answered."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mcp import types

from art_core.errors import describe

__all__ = ["Hook", "Hooks"]

logger = logging.getLogger(__name__)

Hook = Callable[[str, Mapping[str, Any]], "Mapping[str, Any] | Awaitable[Mapping[str, Any] | None] | None"]
"""(server name, request parameters in wire form) -> result in wire form, or None to decline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """What answers a server's requests.

    ``elicit`` returns ``{"action": "accept", "content": {...}}`` or the like; ``sample`` returns a
    ``sampling/createMessage`` result: ``{"role": "assistant", "content": {"type": "text", "text": ...}, "model": ...}``.
    A hook that raises declines, and the failure is logged.
    """

    elicit: Hook | None = None
    sample: Hook | None = None

    def callbacks(self, server: str) -> dict[str, Any]:
        """Keyword arguments of the SDK's ``ClientSession``."""

        async def elicit(context: Any, params: Any) -> Any:
            answer = await _ask(self.elicit, server, params)
            return types.ElicitResult.model_validate(answer or {"action": "decline"})

        async def sample(context: Any, params: Any) -> Any:
            answer = await _ask(self.sample, server, params)
            if answer is None:
                return types.ErrorData(code=types.INVALID_REQUEST, message="sampling was declined")
            return types.CreateMessageResult.model_validate(answer)

        callbacks: dict[str, Any] = {"elicitation_callback": elicit}
        if self.sample is not None:
            callbacks["sampling_callback"] = sample
        return callbacks


async def _ask(hook: Hook | None, server: str, params: Any) -> Mapping[str, Any] | None:
    if hook is None:
        return None
    try:
        answer = hook(server, params.model_dump(mode="json", by_alias=True, exclude_none=True))
        return await answer if inspect.isawaitable(answer) else answer
    except Exception as error:  # noqa: BLE001 - a hook that fails must not hang the server's request
        logger.warning(
            "warning: a hook for MCP server %r failed, so its request is declined: %s", server, describe(error)
        )
        return None
