"""Configuration of models: precision, and the shape of the adapter; light, so that reading it loads no tensor library."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field

from art_core.config import Config

__all__ = ["LoraConfig", "Precision"]

Precision = Literal["float32", "bfloat16"]
"""Of matrix products; logprobs and the optimizer are always in float32."""


class LoraConfig(Config):
    """The adapter that is trained."""

    start: str | None = None
    """Begin from this adapter instead of a fresh one: a PEFT adapter directory or the directory of a run, relative to the
    current directory. Rank, alpha and targets are then the adapter's."""

    rank: int = Field(default=16, ge=1)
    """Inner dimension r of the two factors."""
    alpha: float = Field(default=32.0, gt=0)
    """The update is scaled by alpha / rank."""
    targets: Literal["all-linear"] | tuple[str, ...] = "all-linear"
    """``all-linear`` (every linear layer but the vocabulary head), or module names such as ``["q_proj", "v_proj"]``."""

    def completed(self, other: LoraConfig) -> Self:
        """This record with ``other``'s value for every field that was not set here."""
        missing = set(type(self).model_fields) - self.model_fields_set
        return self.model_copy(update={name: getattr(other, name) for name in missing})
