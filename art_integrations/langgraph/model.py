"""The chat model that answers in place of the graph's own: LangChain's OpenAI model over a rollout's session."""

from __future__ import annotations

import functools
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from art_core.rollout.session import Session
from art_core.rollout.transports import BASE_URL

from .client import clients_for

__all__ = ["PolicyModel", "model_for"]

_NAME = "langgraph.clients"


_KEPT = {
    "callbacks": ("callbacks",),
    "tags": ("tags",),
    "metadata": ("metadata",),
    "max_tokens": ("max_tokens", "max_output_tokens", "num_predict"),
    "stop": ("stop", "stop_sequences"),
}
"""What a model is made with that holds for the policy too, and how providers' models spell it."""


class PolicyModel(ChatOpenAI):
    """Whose calls are turns of a rollout."""


def model_for(session: Session, origin: BaseChatModel) -> PolicyModel:
    """The policy's model of a rollout, in the place of ``origin``; for calls from any thread.

    It has what ``origin`` was made with: callbacks, tags and metadata, so that observers see it in its place, and the longest
    reply and the texts that end it.
    """
    own: dict[str, Any] = dict(session.attached.get(_NAME) or session.attached.setdefault(_NAME, clients_for(session)))
    for name, spellings in _KEPT.items():
        value = next((found for s in spellings if (found := getattr(origin, s, None))), None)
        if value is not None:
            own[name] = value
    return _policy_model().model_copy(update=own)


@functools.cache
def _policy_model() -> PolicyModel:
    """Of no rollout. It never retries, caches nothing, and does not watch over chunks that are all there."""
    model = PolicyModel(
        model="policy",
        base_url=BASE_URL,
        api_key=SecretStr("rollout"),
        organization="",
        openai_proxy="",
        max_retries=0,
        use_responses_api=False,
        cache=False,
        stream_usage=True,
        stream_chunk_timeout=None,
    )
    assert model._serialized  # LangChain works it out once for a model, and a copy takes over what is known
    return model
