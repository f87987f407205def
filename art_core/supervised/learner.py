"""The model that learns: base weights, adapter, trainer and checkpoints of supervised fine-tuning, in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from art_core.errors import MissingExtra
from art_core.rendering.renderer import Renderer
from art_core.trajectory.samples import TrainingSample

from .config import SftConfig

try:
    from art_core.models.compute import COMPUTE
    from art_core.models.load import load_context, load_model, load_tokenizer
    from art_core.models.lora import attach
    from art_core.models.probe import choose_precision, probe
    from art_core.training import checkpoint
    from art_core.training.sft import SftTrainer
    from art_core.training.trainer import StepReport
except ModuleNotFoundError as error:
    if error.name is None or error.name.startswith("art_core"):
        raise
    raise MissingExtra(error.name, "train") from error

__all__ = ["Learner", "open_renderer"]


def open_renderer(base_model: str) -> tuple[Renderer, int]:
    """How chats become ids for a model, and its longest sequence in tokens; loads no weights.

    Raises:
        InputError: an unknown model.
    """
    return Renderer(load_tokenizer(base_model)), load_context(base_model)


class Learner:
    """Loading the model takes seconds and happens here, at construction.

    Args:
        base_model: see ``load_model``.
        config: begins from the adapter directory ``lora.start``, if that is set.
        updates: those of the whole run.

    Raises:
        InputError: an unknown model, lora targets it has not, or an adapter to start from that does not fit it.
    """

    def __init__(self, base_model: str, config: SftConfig, *, updates: int) -> None:
        COMPUTE.run(self._open, base_model, config, updates)

    def _open(self, base_model: str, config: SftConfig, updates: int) -> None:
        self._precision = choose_precision(config.precision)
        self._loaded = load_model(base_model, device=probe().device)
        self._renderer = Renderer(self._loaded.tokenizer)
        model = attach(self._loaded.model, config.lora, seed=config.seed)
        if config.lora.start is not None:
            checkpoint.load_adapter(Path(config.lora.start), model)
        self._trainer = SftTrainer(
            model,
            updates=updates,
            learning_rate=config.learning_rate,
            schedule=config.schedule,
            max_grad_norm=config.max_grad_norm,
            micro_batch_tokens=config.micro_batch_tokens,
            precision=self._precision,
        )

    def update(self, rows: Sequence[TrainingSample], on_progress: Callable[[float], None] | None = None) -> StepReport:
        """See ``SftTrainer.update``."""
        return self._trainer.update(rows, on_progress)

    def mean_loss(self, rows: Sequence[TrainingSample]) -> tuple[float, int]:
        """See ``SftTrainer.mean_loss``."""
        return self._trainer.mean_loss(rows)

    def save(self, directory: Path, extra: Mapping[str, Any]) -> None:
        """Write a checkpoint with the chat template that the rows were rendered with."""
        saved = {"base_model": self._loaded.name, **extra}
        checkpoint.save(directory, self._trainer, chat_template=self._renderer.chat_template, extra=saved)

    def load(self, directory: Path) -> Mapping[str, Any]:
        """Restore a checkpoint of this run and give back its ``extra``."""
        return checkpoint.load(directory, self._trainer)

    def describe(self) -> dict[str, Any]:
        """Base model, device, precision and what the probe measured."""
        return {
            "base_model": self._loaded.name,
            "device": str(self._loaded.model.device),
            "precision": self._precision,
            "threads": probe().threads,
            "probe": probe().to_dict(),
        }
