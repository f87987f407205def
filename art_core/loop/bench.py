"""Sampler and trainer of one model with one adapter, side by side, and a third copy run by transformers alone.

All three share the base weights. The sampler and the trainer are the product's own and are wired as ``embedded`` wires them; the
plain copy is made before the trainer touches the model, so that nothing the trainer does to its layers reaches it.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from art_core import randomness
from art_core.errors import MissingExtra
from art_core.inference.local_policy import LocalPolicy
from art_core.inference.protocol import SamplingParams
from art_core.models.config import Precision
from art_core.rendering.renderer import Renderer
from art_core.trajectory.graph import DEFAULT_ADAPTER, PolicyVersion
from art_core.trajectory.samples import TrainingSample

try:
    from art_core.inference.transformers_engine import TransformersEngine
    from art_core.models.compute import COMPUTE
    from art_core.models.deterministic import fix_threads
    from art_core.models.fold import FoldedModel
    from art_core.models.load import load_model
    from art_core.models.lora import attach, read_adapter
    from art_core.models.probe import PRECISIONS, choose_precision, probe
    from art_core.training import checkpoint
    from art_core.training.passes import Pass, perturb_adapter, plain_pass, tree_pass
    from art_core.training.trainer import GrpoTrainer
except ModuleNotFoundError as error:
    if error.name is None or error.name.startswith("art_core"):
        raise
    raise MissingExtra(error.name, "train") from error

from .subject import Subject

__all__ = ["Bench", "row_of"]

_SERVED = PolicyVersion(DEFAULT_ADAPTER, 1)


class Bench:
    """Loading takes seconds and happens at construction; ``open`` must follow.

    ``precision`` is ``auto`` (measured), ``float32`` or ``bfloat16``.

    Raises:
        InputError: the model cannot be loaded, or the adapter does not fit it.
    """

    def __init__(self, subject: Subject, precision: str) -> None:
        self.config = subject.config
        COMPUTE.run(self._load, subject, precision)

    def _load(self, subject: Subject, precision: str) -> None:
        config = self.config
        self.precision = choose_precision(precision)
        loaded = load_model(subject.base_model, device=probe().device)
        self.device = str(loaded.model.device)
        self.context = loaded.context
        self.renderer = Renderer(loaded.tokenizer)
        if config.deterministic:
            fix_threads()
        self.engine = TransformersEngine(loaded.model, precision=self.precision, deterministic=config.deterministic)
        self._merged = FoldedModel(loaded.model, dtype=PRECISIONS[self.precision])
        self._plain = attach(FoldedModel(loaded.model).model, config.lora, seed=config.seed)
        self._model = attach(loaded.model, config.lora, seed=config.seed)
        if subject.adapter is None:
            perturb_adapter(self._model, seed=config.seed)
        else:
            checkpoint.load_adapter(subject.adapter, self._model)
        self.trainer = GrpoTrainer(self._model, config.training, precision=self.precision)

    async def open(self) -> None:
        """Serve the trainer's adapter, by way of the disk as a run does, and give it to the other copies."""
        with tempfile.TemporaryDirectory(prefix="art-adapter-") as place:
            directory = Path(place) / "adapter"
            await asyncio.to_thread(
                checkpoint.save_adapter, directory, self._model, chat_template=self.renderer.chat_template
            )
            await self.engine.load(_SERVED, directory)
            await asyncio.to_thread(COMPUTE.run, self._share, directory)

    def _share(self, directory: Path) -> None:
        checkpoint.load_adapter(directory, self._plain)
        self._merged.fold(read_adapter(directory))

    async def sample(
        self, prompts: Sequence[Sequence[int]], *, siblings: int, max_tokens: int, temperature: float
    ) -> list[TrainingSample]:
        """``siblings`` completions of each prompt, as rows, siblings next to each other."""
        params = SamplingParams(temperature=temperature, max_tokens=max_tokens, stop_ids=self.renderer.stop_ids)
        wanted = [(number, sibling) for number in range(len(prompts)) for sibling in range(siblings)]
        keys = [randomness.fold("doctor", self.config.seed, f"{temperature:g}", *place) for place in wanted]
        drawn = await asyncio.gather(
            *(
                self.engine.sample(prompts[number], params, _SERVED, key)
                for (number, _), key in zip(wanted, keys, strict=True)
            )
        )
        return [
            row_of(
                prompts[number],
                completion.ids,
                temperature=temperature,
                rollout_id=f"{number}-{sibling}",
                logprobs=completion.logprobs,
            )
            for (number, sibling), completion in zip(wanted, drawn, strict=True)
        ]

    def policy(self, *, max_tokens: int, temperature: float) -> LocalPolicy:
        """The sampler as agents see it."""
        sampling = SamplingParams(temperature=temperature, max_tokens=max_tokens)
        return LocalPolicy(self.engine, self.renderer, sampling=sampling, version=_SERVED, max_context=self.context)

    def plain(
        self,
        rows: Sequence[TrainingSample],
        coefficients: Sequence[float],
        *,
        precision: Precision | None = None,
        reordered: bool = False,
    ) -> Pass:
        """The unfolded adapter by transformers alone."""
        return COMPUTE.run(
            plain_pass, self._plain, rows, coefficients, precision=precision or self.precision, reordered=reordered
        )

    def unadapted(self, rows: Sequence[TrainingSample]) -> list[NDArray[np.float32]]:
        """Logprobs without the adapter, by transformers alone."""

        def compute() -> Pass:
            with self._plain.disable_adapter():
                return plain_pass(self._plain, rows, precision=self.precision)

        return COMPUTE.run(compute).logprobs

    def merged(self, rows: Sequence[TrainingSample]) -> list[NDArray[np.float32]]:
        """Logprobs with the adapter folded into the weights, by transformers alone."""
        return COMPUTE.run(plain_pass, self._merged.model, rows, precision=self.precision).logprobs

    def tree(
        self,
        rows: Sequence[TrainingSample],
        coefficients: Sequence[float],
        *,
        shared: bool,
        micro_batch_tokens: int | None = None,
    ) -> Pass:
        """The trainer's pass; with ``shared`` every common prefix is computed once, however short."""
        changes = {"min_shared_tokens": 1, "micro_batch_tokens": micro_batch_tokens}
        config = self.config.training.model_copy(update={k: v for k, v in changes.items() if v is not None})
        return COMPUTE.run(
            tree_pass, self._model, rows, coefficients, precision=self.precision, config=config, shared=shared
        )

    async def close(self) -> None:
        """Stop the engine."""
        await self.engine.close()


def row_of(
    prompt: Sequence[int],
    completion: Sequence[int],
    *,
    temperature: float,
    rollout_id: str,
    logprobs: Sequence[float] | None = None,
) -> TrainingSample:
    """A row in which exactly the completion is trained; logprobs of 0 where none are given."""
    begin, length = len(prompt), len(prompt) + len(completion)
    values = np.zeros(length, dtype=np.float32)
    if logprobs is not None:
        values[begin:] = logprobs
    return TrainingSample(
        token_ids=np.asarray([*prompt, *completion], dtype=np.int64),
        mask=np.arange(length) >= begin,
        logprobs=values,
        temperature=temperature,
        version=_SERVED,
        adapter=DEFAULT_ADAPTER,
        rollout_id=rollout_id,
    )
