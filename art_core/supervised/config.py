"""SftConfig: everything that decides how supervised fine-tuning goes, as one strict record; importing it loads no torch."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from art_core.loop.config import RunConfig

__all__ = ["SftConfig"]


class SftConfig(RunConfig):
    """A whole run of supervised fine-tuning.

    >>> SftConfig(epochs=1, max_time="10m").max_time
    600.0
    """

    limits: ClassVar[frozenset[str]] = frozenset({"max_time", "keep_checkpoints", "checkpoint_every"})

    epochs: int = Field(default=3, ge=1)
    """How often every row is trained on."""
    batch_rows: int = Field(default=16, ge=1)
    """Rows of one update; the last one of an epoch may have fewer."""
    learning_rate: float = Field(default=5e-4, gt=0)
    """Peak learning rate of AdamW."""
    schedule: Literal["linear", "constant"] = "linear"
    """Fall linearly to zero at the end of the last epoch, or stay at the peak."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """The gradient of an update is scaled down to this L2 norm if it is longer."""
    min_reward: float | None = None
    """Of stored rollouts, train only on those with at least this reward."""
    best: int | None = Field(default=None, ge=1)
    """Of stored rollouts, train only on so many of each group, those with the highest rewards."""
    validation_share: float = Field(default=0.1, ge=0, lt=1)
    """How much of the records is held out to measure the loss and choose the best adapter; 0 for none."""
    max_row_tokens: int | None = Field(default=None, ge=2)
    """A longer row is dropped, and counted; at most the model's context."""
    micro_batch_tokens: int = Field(default=1024, ge=1)
    """Most tokens that go through the model at once; bounds memory and never changes the result."""
    checkpoint_every: int = Field(default=10, ge=1)
    """Steps between checkpoints; there is one at the end of every epoch besides."""
