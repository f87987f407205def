"""OriginalPolicy: the agent's own models answer, as in production; what they said is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from art_core.errors import InputError
from art_core.messages import Message, ToolSpec

from .protocol import SessionView

__all__ = ["OriginalPolicy"]


class OriginalPolicy:
    """For agents whose model calls are intercepted (LangGraph graphs, programs on an SDK): nothing is redirected, every call
    becomes a ``ModelCall`` of the trajectory. An agent that asks the session itself has no model of its own."""

    async def complete(
        self, session: SessionView, messages: Sequence[Message], tools: Sequence[ToolSpec], params: dict[str, Any]
    ) -> NoReturn:
        """
        Raises:
            InputError: always.
        """
        raise InputError(
            "the agent asks the session for its model, so it has none of its own to be measured; name one: provider/model"
        )
