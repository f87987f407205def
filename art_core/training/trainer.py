"""The GRPO trainer: samples and their advantages in, updated LoRA weights out; it knows nothing of rollouts.

Invariants: only parameters that require a gradient change; a step either completes or leaves weights and optimizer as
they were; no dropout is applied, so that on fresh samples the trainer's logprobs are the sampler's.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from art_core.errors import InputError
from art_core.models.compute import COMPUTE
from art_core.models.config import Precision
from art_core.trajectory.samples import TrainingSample

from .config import StepReport, TrainingConfig
from .logprobs import SplitModel
from .loss import TokenStats
from .memory import Budget
from .optim import Optimizer, learning_rate
from .step import Work, accumulate, plan, token_logprobs

if TYPE_CHECKING:
    from peft import PeftModel

__all__ = ["GrpoTrainer", "StepReport", "TrainingConfig"]


class GrpoTrainer:
    """Trains what requires a gradient in ``model``: a PEFT model, or any transformers causal language model.

    Args:
        model: it is switched to evaluation mode (dropout off).
        config: see ``TrainingConfig``.
        precision: ``bfloat16`` computes the model in it, where all that is trained is a LoRA (see ``models.folded_lora``),
            and otherwise its matrix products (autocast); trained parameters, logprobs and the optimizer stay in float32.

    Raises:
        InputError: nothing requires a gradient, the adapter has dropout, which would be silently ignored, or the
            policy is to be held to the base and there is no adapter to take off.

    With ``kl_reference`` ``start`` the reference is the weights that ``model`` has now, whatever is loaded later.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        config: TrainingConfig | None = None,
        *,
        precision: Precision = "float32",
    ) -> None:
        self.config = config or TrainingConfig()
        self.model = model
        for name, adapter in getattr(model, "peft_config", {}).items():
            if getattr(adapter, "lora_dropout", 0.0):
                raise InputError(
                    f"adapter {name!r} has lora_dropout = {adapter.lora_dropout}; GRPO trains without dropout, set it to 0"
                )
        held, to_start = bool(self.config.kl_coefficient), self.config.kl_reference == "start"
        if held and not to_start and not hasattr(model, "disable_adapter"):
            raise InputError(
                f"kl_coefficient {self.config.kl_coefficient} compares with the model without its adapter; this one has none"
            )
        model.eval()
        self._trainable = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._optimizer = Optimizer(self._trainable, self.config)
        self._start = self._weights() if held and to_start else None
        self._split = COMPUTE.run(SplitModel, model, precision=precision)
        self._budget = Budget(self.config.micro_batch_tokens)
        self.step_count = 0
        """Calls of ``step`` that updated the weights."""

    @property
    def updates(self) -> int:
        """Optimizer updates made: ``passes`` per step."""
        return self._optimizer.updates

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next update."""
        return learning_rate(self.config, self.updates)

    def step(
        self,
        samples: Sequence[TrainingSample],
        advantages: Sequence[float],
        *,
        on_progress: Callable[[float], None] | None = None,
    ) -> StepReport:
        """Train on the samples of one step; the order of rows does not matter.

        Args:
            samples: rows of groups with spread, all of one adapter.
            advantages: one per row: its rollout's.
            on_progress: called with the fraction of work done, in (0, 1].

        Raises:
            InputError: see ``step.plan``; nothing was changed.
            NonFiniteError: a loss or gradient was not finite; weights and optimizer are as they were before the call.
            TrainerError: memory does not suffice even for the smallest passes.
        """
        return COMPUTE.run(self._budget.call, self._step, samples, advantages, on_progress)

    def _step(
        self,
        samples: Sequence[TrainingSample],
        advantages: Sequence[float],
        on_progress: Callable[[float], None] | None,
    ) -> StepReport:
        began = time.monotonic()
        work = plan(
            samples,
            advantages,
            model=self._split,
            config=self.config,
            budget=self._budget,
            reference=self._reference_logprobs if self.config.kl_coefficient else None,
        )
        if not work.samples:
            return self._report(work, len(samples), began)
        passes = self.config.passes
        saved = self._snapshot() if passes > 1 else None
        loss, stats, norm, rate = 0.0, TokenStats(), 0.0, 0.0
        try:
            for number in range(passes):
                progress = _part(on_progress, number, passes)
                self._optimizer.zero_grad()
                pass_loss, pass_stats = accumulate(work, self._split, self.config, progress)
                norm, rate = self._optimizer.update()
                loss, stats = loss + pass_loss / passes, stats + pass_stats
        except BaseException:
            self._optimizer.zero_grad()
            if saved is not None:
                self._restore(*saved)
            raise
        self.step_count += 1
        return self._report(work, len(samples), began, loss=loss, stats=stats, norm=norm, rate=rate)

    def logprobs(self, samples: Sequence[TrainingSample]) -> list[NDArray[np.float32]]:
        """Per sample (L,) logprobs of its trained tokens under the present weights, in nats; 0 elsewhere."""
        return COMPUTE.run(
            self._budget.call, token_logprobs, samples, model=self._split, config=self.config, budget=self._budget
        )

    def state(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """What a checkpoint needs besides the adapter: the optimizer's tensors, and counters as plain values.

        Among them the tokens of a pass once memory has run out: the order of a sum depends on it.
        """
        counters = {"step_count": self.step_count, "updates": self.updates}
        if self._budget.frugal:
            counters["pass_tokens"] = self._budget.tokens
        return self._optimizer.tensors(), counters

    def load_state(self, tensors: Mapping[str, torch.Tensor], counters: Mapping[str, Any]) -> None:
        """Continue from what ``state`` returned; the adapter's weights are loaded separately.

        Raises:
            InputError: the state belongs to another model; nothing was changed.
        """
        self._optimizer.load(tensors, int(counters["updates"]))
        self.step_count = int(counters["step_count"])
        self._budget.shrink(int(counters.get("pass_tokens", self.config.micro_batch_tokens)))

    def _reference_logprobs(self, samples: Sequence[TrainingSample]) -> list[NDArray[np.float32]]:
        """As ``logprobs``, under the model that the policy is held to."""
        base = cast("PeftModel", self.model).disable_adapter if self._start is None else self._at_start
        with base():
            return self.logprobs(samples)

    @contextlib.contextmanager
    def _at_start(self) -> Iterator[None]:
        """The starting weights in the place of the present ones, which come back bit by bit."""
        assert self._start is not None
        present = self._weights()
        self._put(self._start)
        try:
            yield
        finally:
            self._put(present)

    def _weights(self) -> dict[str, torch.Tensor]:
        return {name: parameter.detach().clone() for name, parameter in self._trainable.items()}

    @torch.no_grad()
    def _put(self, weights: Mapping[str, torch.Tensor]) -> None:
        for name, parameter in self._trainable.items():
            parameter.copy_(weights[name])

    def _snapshot(self) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor], int]:
        return self._weights(), self._optimizer.tensors(), self.updates

    def _restore(self, weights: dict[str, torch.Tensor], moments: dict[str, torch.Tensor], updates: int) -> None:
        self._put(weights)
        self._optimizer.load(moments, updates)

    def _report(
        self,
        work: Work,
        rows: int,
        began: float,
        *,
        loss: float = 0.0,
        stats: TokenStats | None = None,
        norm: float = 0.0,
        rate: float = 0.0,
    ) -> StepReport:
        figures = stats or TokenStats()
        count = max(1, figures.tokens)
        passes = self.config.passes if stats else 0
        return StepReport(
            updated=stats is not None,
            loss=loss,
            grad_norm=norm,
            learning_rate=rate,
            rows=rows,
            rows_skipped=rows - len(work.samples),
            tokens=work.tokens,
            masked_rollouts=len(work.masked),
            masked_tokens=sum(work.masked.values()),
            forward_tokens=work.forward_tokens * passes,
            row_tokens=work.row_tokens * passes,
            micro_batch_tokens=self._budget.tokens,
            ratio_mean=figures.ratio / count,
            clip_fraction=figures.clipped / count,
            kl_behaviour=figures.kl / count,
            kl_base=figures.kl_reference / count if self.config.kl_coefficient else None,
            entropy=figures.surprise / count,
            seconds=time.monotonic() - began,
        )


def _part(on_progress: Callable[[float], None] | None, number: int, passes: int) -> Callable[[float], None] | None:
    if on_progress is None:
        return None
    return lambda fraction: on_progress((number + fraction) / passes)
