"""Backend: the one thing the training loop needs of models, engines and trainers, wherever they run.

The loop never sees a tensor. It asks for a policy to play with, hands over rows to train on, has the result published
to whoever samples, and has it saved. Versions are the loop's: the backend confirms them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from art_core.inference.base_model import BaseModel
from art_core.inference.protocol import Policy
from art_core.training.config import StepReport
from art_core.trajectory.graph import PolicyVersion
from art_core.trajectory.samples import TrainingSample

__all__ = ["Backend", "BackendWithBase"]


class Backend(Protocol):
    """Samples, trains and keeps the adapters of a run: one named ``default``, or several, each with its own optimizer.

    A new backend holds fresh adapters that change nothing, or the one that ``lora.start`` names, and serves each as its version 0,
    ``default@0``.
    """

    def policy(self, *versions: PolicyVersion) -> Policy:
        """A policy that answers with exactly ``versions``, one for each adapter, at the temperature configured for what a session is:
        training or evaluating.

        Raises:
            ProviderError: one of them is not being served.
        """
        ...

    def train(
        self,
        samples: Sequence[TrainingSample],
        advantages: Sequence[float],
        on_progress: Callable[[float], None] | None = None,
    ) -> StepReport:
        """One training step of one adapter, on rows of it and their advantages, parallel to each other. Called in a worker thread.

        ``on_progress`` is told the fraction done.

        Raises:
            NonFiniteError: nothing was updated.
        """
        ...

    async def publish(self, version: PolicyVersion) -> None:
        """Serve the present state of ``version.adapter`` as ``version``; returns once requests for it are answered by it."""
        ...

    def save(self, directory: Path, extra: Mapping[str, Any]) -> None:
        """Write a whole checkpoint of all adapters with ``extra`` (JSON data) in it, in one move. Called in a worker thread."""
        ...

    def load(self, directory: Path) -> Mapping[str, Any]:
        """Restore a checkpoint and give back its ``extra``; ``publish`` follows. Called in a worker thread.

        Raises:
            InputError: the directory is not a whole checkpoint of this base model.
        """
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids, special tokens included; for showing rollouts in the report."""
        ...

    def describe(self) -> dict[str, Any]:
        """What is being used, as plain data: ``base_model``, ``device``, ``precision``, ``probe``."""
        ...

    async def close(self) -> None:
        """Free everything."""
        ...


@runtime_checkable
class BackendWithBase(Backend, Protocol):
    """A backend whose engine can be asked as the base model too, beside its adapters."""

    async def base(self) -> BaseModel:
        """The weights without any adapter; it ends with the backend."""
        ...
