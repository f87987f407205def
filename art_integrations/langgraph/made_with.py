"""What a chat model was made with that would be an argument of every call of it."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models import BaseChatModel

__all__ = ["made_with"]

_SAMPLING = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "n",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
)
_SHAPES = ("format", "response_mime_type", "response_schema")


def made_with(model: BaseChatModel) -> dict[str, Any]:
    """The arguments, in the words of the model's provider: how to sample and the form of the answer, where they were set and are
    not the class's own defaults, and what the provider's class did not know itself (``model_kwargs``)."""
    given = {name: getattr(model, name, None) for name in (*_SAMPLING, *_SHAPES) if name in model.model_fields_set}
    others: dict[str, Any] = getattr(model, "model_kwargs", None) or {}
    return {**others, **{name: value for name, value in given.items() if value is not None}}
