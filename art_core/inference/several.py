"""SeveralPolicies: one policy for each adapter of a run, side by side; each call says which one answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from art_core.errors import InputError
from art_core.messages import Message, ToolSpec
from art_core.trajectory.graph import DEFAULT_ADAPTER, Turn

from .protocol import Policy, SamplingParams, SessionView

__all__ = ["SeveralPolicies"]


class SeveralPolicies:
    """Hands a call to the policy of the adapter that its parameter ``adapter`` names."""

    def __init__(self, policies: Mapping[str, Policy], *, sampling: SamplingParams) -> None:
        self.sampling = sampling
        """What they have in common."""
        self._policies = dict(policies)

    async def complete(
        self, session: SessionView, messages: Sequence[Message], tools: Sequence[ToolSpec], params: dict[str, Any]
    ) -> Turn:
        """
        Raises:
            InputError: the call names no adapter that there is. Else as the policy that answers.
        """
        asked = {name: value for name, value in params.items() if name != "adapter"}
        name = params.get("adapter", DEFAULT_ADAPTER)
        if name not in self._policies:
            raise InputError(
                f"a call is to be answered by the adapter {name!r}, and there are {', '.join(self._policies)}; give each call's "
                "model, node or agent an adapter with train="
            )
        return await self._policies[name].complete(session, messages, tools, asked)
