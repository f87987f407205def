"""The stage before training that fine-tunes on collected rollouts, as far as a run's loop is concerned.

    base model measured as ``before`` ─► fine-tuning ─► its adapter, copied to ``start-adapter/`` ─► the run begins from that

Each part is there whole or not at all, so a run that was killed here goes on with the part it was in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from art_core.errors import InputError
from art_core.observe.progress import Progress
from art_core.rollout.protocol import Agent

from .config import TrainConfig
from .rundir import RunDir
from .splits import Splits
from .start import find_start

__all__ = ["Stage", "WarmUp", "needs_warm_start", "own_adapter", "warmed"]

Stage = Callable[[RunDir, dict[str, Any], Progress], Awaitable[Any]]
"""Fine-tunes in the run's directory and returns where the adapter is; may add to the record of run.toml."""

WarmUp = Callable[[TrainConfig, Splits, Agent], Stage]
"""Checks what can be checked without a model, and gives the stage."""


def needs_warm_start(config: TrainConfig, directory: RunDir | None) -> bool:
    """Whether the stage is still to be done."""
    return config.warm_start is not None and (directory is None or not directory.start.is_dir())


async def warmed(stage: Stage, directory: RunDir, record: dict[str, Any], progress: Progress) -> None:
    """Do the stage, and give the run its adapter."""
    adapter = await stage(directory, record, progress)
    start = find_start(adapter)
    record["start"] = start.to_record()
    directory.write_record(record)
    start.copy(directory.start)


def own_adapter(config: TrainConfig, directory: RunDir) -> TrainConfig:
    """``config`` for what trains after a warm start: it begins from the run's own adapter.

    Raises:
        InputError: the warm start has not ended, or its adapter is damaged.
    """
    if config.warm_start is None:
        return config
    if not directory.start.is_dir():
        raise InputError(
            f"run {str(directory.path)!r} has not ended its warm start; go on with: art train --resume {directory.path}"
        )
    shape = find_start(directory.start).shape
    return config.model_copy(update={"lora": shape.model_copy(update={"start": str(directory.start)})})
