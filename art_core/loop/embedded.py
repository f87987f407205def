"""The embedded backend: base model, sampler and trainer in this process, on a CPU or one GPU.

One set of base weights serves both sides, which is never written: the engine samples from a copy with the adapter folded
into the adapted matrices, the trainer computes through another. A published version is written to disk and read back by the engine,
so what is served is what a checkpoint holds.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from art_core import workers
from art_core.errors import InputError, MissingExtra, ProviderError
from art_core.inference.local_policy import LocalPolicy
from art_core.inference.protocol import SamplingParams
from art_core.rendering.renderer import Renderer
from art_core.trajectory.graph import PolicyVersion
from art_core.trajectory.samples import TrainingSample

try:
    from art_core.inference.transformers_engine import TransformersEngine
    from art_core.models.compute import COMPUTE
    from art_core.models.deterministic import deterministic_algorithms, fix_threads
    from art_core.models.load import load_model
    from art_core.models.lora import attach
    from art_core.models.probe import choose_precision, probe
    from art_core.training import checkpoint
    from art_core.training.trainer import GrpoTrainer, StepReport
except ModuleNotFoundError as error:
    if error.name is None or error.name.startswith("art_core"):
        raise
    raise MissingExtra(error.name, "train") from error

from .backend import ADAPTER
from .config import TrainConfig
from .start import find_start

__all__ = ["EmbeddedBackend"]


class EmbeddedBackend:
    """See ``loop.backend.Backend``. Loading the model takes seconds and happens here, at construction.

    Raises:
        InputError: an unknown model, lora targets it has not, an adapter to start from that does not fit it, or a
            deterministic run on a GPU.
    """

    def __init__(self, base_model: str, config: TrainConfig) -> None:
        COMPUTE.run(self._open, base_model, config)

    def _open(self, base_model: str, config: TrainConfig) -> None:
        self._config = config
        lora, start = config.lora, None
        if lora.start is not None:
            start = find_start(lora.start)
            lora = start.complete(lora)
        self._precision = choose_precision(config.computed_in)
        device = probe().device
        if config.deterministic:
            if device != "cpu":
                raise InputError(
                    f"a deterministic run computes on a CPU, not on {device}; set CUDA_VISIBLE_DEVICES to ''"
                )
            fix_threads()
        self._loaded = load_model(base_model, device=device)
        self._renderer = Renderer(self._loaded.tokenizer)
        if config.deterministic and "strftime_now" in self._renderer.chat_template:
            raise InputError(
                f"the chat template of {base_model!r} shows the date (strftime_now), so a deterministic run would differ "
                "tomorrow; run it without deterministic, or with a model whose template has no date"
            )
        self._version = PolicyVersion(ADAPTER, 0)
        self._engine = TransformersEngine(
            self._loaded.model,
            precision=self._precision,
            max_rows=max(64, config.rollout.concurrency),
            version=self._version,
            adapter=start.path if start else None,
            deterministic=config.deterministic,
        )
        self._model = attach(self._loaded.model, lora, seed=config.seed)
        if start is not None:
            checkpoint.load_adapter(start.path, self._model)
        self._trainer = GrpoTrainer(self._model, config.training, precision=self._precision)

    @property
    def renderer(self) -> Renderer:
        """How chats become ids for this model."""
        return self._renderer

    def policy(self, version: PolicyVersion) -> LocalPolicy:
        """A policy that answers with exactly ``version``.

        Raises:
            ProviderError: another version is being served.
        """
        if version != self._version:
            raise ProviderError(f"policy version {version} was asked for, but {self._version} is being served")
        rollout = self._config.rollout
        return LocalPolicy(
            self._engine,
            self._renderer,
            sampling=SamplingParams(temperature=rollout.temperature, max_tokens=rollout.max_tokens),
            evaluation_temperature=self._config.evaluation.temperature,
            version=version,
            max_context=self._loaded.context,
            one_at_a_time=self._config.deterministic,
        )

    def train(
        self,
        samples: Sequence[TrainingSample],
        advantages: Sequence[float],
        on_progress: Callable[[float], None] | None = None,
    ) -> StepReport:
        """One training step; see ``GrpoTrainer.step``."""
        with deterministic_algorithms() if self._config.deterministic else contextlib.nullcontext():
            return self._trainer.step(samples, advantages, on_progress=on_progress)

    async def publish(self, version: PolicyVersion) -> None:
        """Serve the present adapter as ``version``: requests from now on are answered by it."""
        with tempfile.TemporaryDirectory(prefix="art-adapter-") as place:
            directory = Path(place) / "adapter"
            await workers.call(self._write_adapter, directory, name="write adapter")
            await self._engine.load(version, directory)
        self._version = version

    def save(self, directory: Path, extra: Mapping[str, Any]) -> None:
        """Write a checkpoint with the chat template the model was trained with."""
        saved = {"base_model": self._loaded.name, **extra}
        checkpoint.save(directory, self._trainer, chat_template=self._renderer.chat_template, extra=saved)

    def load(self, directory: Path) -> Mapping[str, Any]:
        """Restore adapter, optimizer and counters.

        Raises:
            InputError: not a whole checkpoint, or one of another base model.
        """
        made_with = checkpoint.read_extra(directory).get("base_model")
        if made_with != self._loaded.name:
            raise InputError(f"{str(directory)!r} is a checkpoint of {made_with!r}, not of {self._loaded.name!r}")
        return checkpoint.load(directory, self._trainer)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens included."""
        return self._renderer.text(ids)

    def describe(self) -> dict[str, Any]:
        """Base model, device, precision, threads, what the probe measured; of a deterministic run also its lanes."""
        lanes = self._engine.lanes
        return {
            "base_model": self._loaded.name,
            "device": str(self._loaded.model.device),
            "precision": self._precision,
            "threads": probe().threads,
            **({} if lanes is None else {"lanes": lanes}),
            "probe": probe().to_dict(),
            "chat template": "the model's own" if self._renderer.native_tools else "with the fallback tool section",
        }

    async def close(self) -> None:
        """Stop the engine."""
        await self._engine.close()

    def _write_adapter(self, directory: Path) -> None:
        checkpoint.save_adapter(directory, self._model, chat_template=self._renderer.chat_template)
