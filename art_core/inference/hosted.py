"""HostedPolicy: a provider's model answers over HTTP, for collecting and comparing; it gives no token ids, so nothing is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from art_core.errors import ProviderError, describe
from art_core.messages import Message, ToolSpec
from art_core.trajectory.graph import Turn

from .hosted_client import HostedClient
from .protocol import SessionView
from .providers import find_hosted_model

__all__ = ["NO_IDS", "HostedPolicy"]

NO_IDS = "a hosted model gives no token ids"


class HostedPolicy:
    """See ``inference.protocol.Policy``. Answers with any model behind an API of OpenAI's form.

    A turn holds messages and, in ``metadata["usage"]``, ``input_tokens`` and ``output_tokens`` as the provider counts them.

    Args:
        model: ``provider/model``, or ``model@URL``; see ``inference.providers``.
        api_key: the provider's variable in the environment holds it unless given.
        retries: how often a request that failed for a passing reason is sent again.
        seconds: for one request.

    Raises:
        InputError: an unknown provider, or no key.
    """

    def __init__(self, model: str, *, api_key: str | None = None, retries: int = 4, seconds: float = 120.0) -> None:
        self.name = model
        self._hosted = find_hosted_model(model, api_key)
        self._client = HostedClient(self._hosted, retries=retries, seconds=seconds)

    async def complete(
        self, session: SessionView, messages: Sequence[Message], tools: Sequence[ToolSpec], params: dict[str, Any]
    ) -> Turn:
        """Ask the provider.

        Raises:
            ProviderError: it does not answer, or not as the API should.
        """
        turn_id, match = session.recorder.next_id(), session.recorder.match(messages, tools)
        body = self._body(messages, tools, params)
        try:
            answer = (await self._client.here().chat.completions.create(**body)).model_dump()
        except Exception as error:
            raise ProviderError(f"{self.name}: {describe(error)}") from error
        if not answer.get("choices"):
            raise ProviderError(f"{self.name}: the answer has no choices: {answer!r}")
        choice = answer["choices"][0]
        return Turn(
            id=turn_id,
            parent=match.turn.id if match.turn is not None else None,
            context_ids=(),
            completion_ids=(),
            logprobs=None,
            finish_reason="length" if choice.get("finish_reason") == "length" else "stop",
            not_trainable=NO_IDS,
            parent_messages=match.kept,
            messages=tuple(messages[match.kept :]),
            reply=Message.reply_from_wire(choice["message"]),
            tools=tuple(tools),
            fork="the same request again" if match.repeat else match.reason,
            metadata={"model": self.name, "usage": _usage(answer.get("usage") or {})},
        )

    async def close(self) -> None:
        """Close the connections of this event loop."""
        await self._client.close()

    def _body(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], params: Mapping[str, Any]
    ) -> dict[str, Any]:
        wishes = {name: value for name, value in params.items() if name != "adapter"}
        if "max_tokens" in wishes:
            wishes[self._hosted.length] = wishes.pop("max_tokens")
        if tools:
            wishes["tools"] = [tool.to_wire() for tool in tools]
        wires = [message.to_wire() for message in messages]
        for wire in wires:
            wire.pop("reasoning_content", None)
        return {"model": self._hosted.model, "messages": wires, "extra_body": wishes}


def _usage(told: Mapping[str, Any]) -> dict[str, int | None]:
    return {"input_tokens": told.get("prompt_tokens"), "output_tokens": told.get("completion_tokens")}
