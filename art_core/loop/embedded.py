"""The embedded backend: base model, sampler and trainer in this process, on a CPU or one GPU.

One set of base weights serves both sides, which is never written: the engine samples from a copy with the adapter folded
into the adapted matrices, the trainer computes through another. A published version is written to disk and read back by the engine,
so what is served is what a checkpoint holds. Several adapters each have a sampler, a trainer and an optimizer of their own; a
checkpoint of them has one directory for each.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from art_core import workers
from art_core.errors import InputError, MissingExtra, ProviderError
from art_core.inference.base_model import BaseModel
from art_core.inference.local_policy import LocalPolicy
from art_core.inference.protocol import Policy, SamplingParams
from art_core.inference.several import SeveralPolicies
from art_core.models.adapter import adapters_in
from art_core.rendering.renderer import Renderer
from art_core.trajectory.graph import DEFAULT_ADAPTER, PolicyVersion
from art_core.trajectory.samples import TrainingSample

try:
    from art_core.inference.transformers_engine import TransformersEngine
    from art_core.models.compute import COMPUTE
    from art_core.models.deterministic import deterministic_algorithms, fix_threads
    from art_core.models.fold import share
    from art_core.models.load import load_model
    from art_core.models.lora import attach
    from art_core.models.probe import choose_precision, probe
    from art_core.training import checkpoint
    from art_core.training.manifest import verify, write_directory
    from art_core.training.trainer import GrpoTrainer, StepReport
except ModuleNotFoundError as error:
    if error.name is None or error.name.startswith("art_core"):
        raise
    raise MissingExtra(error.name, "train") from error

from .config import TrainConfig
from .start import StartAdapter, find_start

__all__ = ["EmbeddedBackend", "load_base"]


@dataclass(slots=True, kw_only=True)
class _Adapter:
    """What samples and trains one adapter."""

    engine: TransformersEngine
    trainer: GrpoTrainer
    version: PolicyVersion
    """Being served."""


class EmbeddedBackend:
    """See ``loop.backend.Backend``. Loading the model takes seconds and happens here, at construction.

    Raises:
        InputError: an unknown model, lora targets it has not, an adapter to start from that does not fit it or where there are
            several, or a deterministic run on a GPU.
    """

    def __init__(self, base_model: str, config: TrainConfig, adapters: Sequence[str] = (DEFAULT_ADAPTER,)) -> None:
        COMPUTE.run(self._open, base_model, config, tuple(adapters))

    def _open(self, base_model: str, config: TrainConfig, adapters: tuple[str, ...]) -> None:
        self._config = config
        start = None if config.lora.start is None else find_start(config.lora.start)
        if start is not None and len(adapters) > 1:
            raise InputError(
                f"lora.start {config.lora.start!r} is one adapter, and the run trains {', '.join(adapters)}; leave lora.start out"
            )
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
        self._adapters = {name: self._make(name, start) for name in adapters}

    def _make(self, name: str, start: StartAdapter | None) -> _Adapter:
        version = PolicyVersion(name, 0)
        engine = TransformersEngine(
            self._loaded.model,
            precision=self._precision,
            max_rows=max(64, self._config.rollout.concurrency),
            version=version,
            adapter=start.path if start else None,
            deterministic=self._config.deterministic,
        )
        lora = self._config.lora if start is None else start.complete(self._config.lora)
        model = attach(share(self._loaded.model, self._loaded.model.dtype), lora, seed=self._config.seed)
        if start is not None:
            checkpoint.load_adapter(start.path, model)
        return _Adapter(
            engine=engine, trainer=GrpoTrainer(model, self._config.training, precision=self._precision), version=version
        )

    @property
    def renderer(self) -> Renderer:
        """How chats become ids for this model."""
        return self._renderer

    def trainer(self, adapter: str = DEFAULT_ADAPTER) -> GrpoTrainer:
        """What trains an adapter."""
        return self._adapters[adapter].trainer

    def policy(self, *versions: PolicyVersion) -> Policy:
        """A policy that answers with exactly these versions.

        Raises:
            ProviderError: another version is being served.
        """
        for version in versions:
            adapter = self._adapters.get(version.adapter)
            if adapter is None or version != adapter.version:
                served = ", ".join(str(adapter.version) for adapter in self._adapters.values())
                raise ProviderError(f"policy version {version} was asked for, but {served} is being served")
        rollout = self._config.rollout
        sampling = SamplingParams(temperature=rollout.temperature, max_tokens=rollout.max_tokens)
        policies = {
            version.adapter: LocalPolicy(
                self._adapters[version.adapter].engine,
                self._renderer,
                sampling=sampling,
                evaluation_temperature=self._config.evaluation.temperature,
                version=version,
                max_context=self._loaded.context,
                one_at_a_time=self._config.deterministic,
            )
            for version in versions
        }
        return (
            policies[DEFAULT_ADAPTER]
            if set(policies) == {DEFAULT_ADAPTER}
            else SeveralPolicies(policies, sampling=sampling)
        )

    async def base(self) -> BaseModel:
        """See ``loop.backend.BackendWithBase``."""
        engine = next(iter(self._adapters.values())).engine
        return await BaseModel(self._loaded.name, engine, self._renderer, context=self._loaded.context).open()

    def train(
        self,
        samples: Sequence[TrainingSample],
        advantages: Sequence[float],
        on_progress: Callable[[float], None] | None = None,
    ) -> StepReport:
        """One training step of the adapter that the rows are of; see ``GrpoTrainer.step``."""
        trainer = self._adapters[samples[0].adapter].trainer
        with deterministic_algorithms() if self._config.deterministic else contextlib.nullcontext():
            return trainer.step(samples, advantages, on_progress=on_progress)

    async def publish(self, version: PolicyVersion) -> None:
        """Serve the present state of an adapter as ``version``: requests from now on are answered by it."""
        adapter = self._adapters[version.adapter]
        with tempfile.TemporaryDirectory(prefix="art-adapter-") as place:
            directory = Path(place) / "adapter"
            await workers.call(self._write_adapter, directory, adapter, name="write adapter")
            await adapter.engine.load(version, directory)
        adapter.version = version

    def save(self, directory: Path, extra: Mapping[str, Any]) -> None:
        """Write a checkpoint with the chat template the model was trained with."""
        saved = {"base_model": self._loaded.name, **extra}

        def write(place: Path, adapter: _Adapter) -> None:
            checkpoint.save(place, adapter.trainer, chat_template=self._renderer.chat_template, extra=saved)

        def fill(place: Path) -> None:
            for name, adapter in self._adapters.items():
                write(place / name, adapter)

        if self._named:
            write_directory(directory, fill)
        else:
            write(directory, self._adapters[DEFAULT_ADAPTER])

    def load(self, directory: Path) -> Mapping[str, Any]:
        """Restore adapter, optimizer and counters.

        Raises:
            InputError: not a whole checkpoint, or one of another base model.
        """
        verify(directory)
        found = {path.name: path for path in adapters_in(directory)} or {DEFAULT_ADAPTER: directory}
        if set(found) != set(self._adapters):
            raise InputError(
                f"{str(directory)!r} holds the adapters {', '.join(found)}, and the agent trains {', '.join(self._adapters)}; go on "
                "with the agent that the run was made with"
            )
        places = {name: found[name] for name in self._adapters}
        for place in places.values():
            made_with = checkpoint.read_extra(place).get("base_model")
            if made_with != self._loaded.name:
                raise InputError(f"{str(directory)!r} is a checkpoint of {made_with!r}, not of {self._loaded.name!r}")
        loaded = [checkpoint.load(places[name], adapter.trainer) for name, adapter in self._adapters.items()]
        return loaded[0]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens included."""
        return self._renderer.text(ids)

    def describe(self) -> dict[str, Any]:
        """Base model, device, precision, threads, what the probe measured; of a deterministic run also its lanes."""
        lanes = next(iter(self._adapters.values())).engine.lanes
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
        """Stop the engines."""
        for adapter in self._adapters.values():
            await adapter.engine.close()

    @property
    def _named(self) -> bool:
        """Whether the run trains adapters that it was given names for, each with a directory of its own in a checkpoint."""
        return set(self._adapters) != {DEFAULT_ADAPTER}

    def _write_adapter(self, directory: Path, adapter: _Adapter) -> None:
        checkpoint.save_adapter(directory, adapter.trainer.model, chat_template=self._renderer.chat_template)


def load_base(name: str, config: TrainConfig) -> BaseModel:
    """A model by itself, to be asked and not to be trained; it is held until it is closed.

    Raises:
        InputError: an unknown model.
    """
    loaded = load_model(name, device=probe().device)
    engine = TransformersEngine(
        loaded.model, precision=choose_precision(config.computed_in), deterministic=config.deterministic
    )
    return BaseModel(loaded.name, engine, Renderer(loaded.tokenizer), context=loaded.context)
