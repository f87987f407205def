"""The trainer of supervised fine-tuning: rows in, one update towards the tokens they train.

The loss of an update is the mean negative log-likelihood of its trained tokens, each counting the same whatever the rows
and packs it lies in. Passes, optimizer and checkpoints are those of ``GrpoTrainer``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import torch

from art_core.models.config import Precision
from art_core.trajectory.samples import TrainingSample

from .config import LossRule, StepReport, TrainingConfig
from .trainer import GrpoTrainer

__all__ = ["SftTrainer"]


class _Likelihood(TrainingConfig):
    """The trainer's options with another rule in the place of the policy's."""

    @property
    def rule(self) -> LossRule:
        """Every token's likelihood, as it is."""
        return LossRule(objective="likelihood")


class SftTrainer(GrpoTrainer):
    """Trains what requires a gradient in ``model`` to say what the rows say.

    Args:
        model: see ``GrpoTrainer``.
        updates: those of the whole run; a linear schedule ends there.
        learning_rate, schedule, max_grad_norm, micro_batch_tokens, precision: see ``TrainingConfig`` and ``GrpoTrainer``.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        *,
        updates: int,
        learning_rate: float = 5e-4,
        schedule: Literal["constant", "linear"] = "linear",
        max_grad_norm: float = 1.0,
        micro_batch_tokens: int = 1024,
        precision: Precision = "float32",
    ) -> None:
        config = _Likelihood(
            learning_rate=learning_rate,
            schedule=schedule,
            total_updates=updates if schedule == "linear" else None,
            max_grad_norm=max_grad_norm,
            micro_batch_tokens=micro_batch_tokens,
        )
        super().__init__(model, config, precision=precision)

    def update(self, rows: Sequence[TrainingSample], on_progress: Callable[[float], None] | None = None) -> StepReport:
        """One update from ``rows``; ``on_progress`` is told the fraction done.

        Raises:
            InputError: see ``step.plan``; nothing was changed.
            NonFiniteError: the loss or the gradient was not finite; nothing was changed.
        """
        return self.step(rows, [1.0] * len(rows), on_progress=on_progress)

    def mean_loss(self, rows: Sequence[TrainingSample]) -> tuple[float, int]:
        """Mean negative log-likelihood in nats of the trained tokens of ``rows``, and how many there are."""
        found = self.logprobs(rows)
        tokens = sum(row.trained_tokens for row in rows)
        total = sum(float(own[row.mask].sum(dtype=np.float64)) for own, row in zip(found, rows, strict=True))
        return -total / max(1, tokens), tokens
