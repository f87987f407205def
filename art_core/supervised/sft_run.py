"""One run of supervised fine-tuning, from its first validation to its last: steps, checkpoints, and when to stop.

    validate ─► ( step ─► row ─► checkpoint when due ─► validate after an epoch )*

The rows of a step are a function of the run's rows, its seed and the step, so a run that was killed anywhere repeats the
steps since its last checkpoint as they were and ends with the same bytes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from art_core import workers
from art_core.loop.interrupt import Interrupt
from art_core.loop.rundir import RunDir
from art_core.loop.stopping import Clock, Stop
from art_core.observe.metrics import MetricsLog, read_metrics
from art_core.observe.progress import Progress
from art_core.training.manifest import latest

from .config import SftConfig
from .rows import Rows, batch, steps_per_epoch

if TYPE_CHECKING:
    from .learner import Learner

__all__ = ["SftRun", "best_step", "loss_at"]

Row = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class SftRun:
    """A run that goes on. ``step`` says where it stands; ``log_rows`` is what metrics.jsonl holds."""

    learner: Learner
    config: SftConfig
    rows: Rows
    directory: RunDir
    log: MetricsLog
    progress: Progress
    interrupt: Interrupt
    clock: Clock
    began: float
    log_rows: list[Row] = field(default_factory=list)
    step: int = 0
    saved: int = 0
    """The step of the newest checkpoint."""

    @property
    def steps(self) -> int:
        """Steps of the whole run."""
        return self.config.epochs * self.steps_per_epoch

    @property
    def steps_per_epoch(self) -> int:
        """Steps that see every row once."""
        return steps_per_epoch(len(self.rows.train), self.config.batch_rows)

    async def restore(self) -> None:
        """Go to the newest whole checkpoint, if there is one."""
        found = latest(self.directory.checkpoints)
        for path, reason in found.skipped:
            self.progress.warn(f"checkpoint {path.name} is left out: {reason}")
        self.step = self.saved = found.step or 0
        self.log.rewind(self.step)
        self.log_rows = read_metrics(self.directory.metrics)
        self.clock.closing = next((row["seconds"] for row in reversed(self.log_rows) if row["kind"] == "sft_eval"), 0.0)
        if found.path is not None:
            await workers.call(self.learner.load, found.path, name="checkpoint")

    async def go(self) -> Stop:
        """Train until there is a reason to stop, and measure what came out."""
        if self.step == 0:
            await self._validate("before")
        while True:
            if self.step and self.step % self.steps_per_epoch == 0:
                await self._validate("step")
            newest = self.directory.checkpoint_steps()[-self.config.keep_checkpoints :]
            self.directory.keep_checkpoints({*newest, best_step(self.log_rows)})
            if self.step >= self.steps:
                return Stop(reason="steps", text=f"all {self.config.epochs} epochs are done")
            if self.interrupt.asked:
                await self._save()
                return Stop(reason="interrupted", text=f"interrupted after step {self.step}")
            self.clock.spent = time.monotonic() - self.began
            if self.clock.step > 0 and self.clock.up:
                await self._save()
                await self._validate("step")
                return Stop(reason="max_time", text=f"the {self.clock.limit:g} s it may take are used up")
            await self._take_step()

    async def _take_step(self) -> None:
        number, began = self.step + 1, time.monotonic()
        indices = batch(len(self.rows.train), batch_rows=self.config.batch_rows, seed=self.config.seed, step=number)
        report = await workers.call(self.learner.update, [self.rows.train[index] for index in indices], name="training")
        self.step = number
        self.write(
            "sft",
            epoch=(number - 1) // self.steps_per_epoch + 1,
            loss=report.loss,
            rows=report.rows,
            tokens=report.tokens,
            grad_norm=report.grad_norm,
            learning_rate=report.learning_rate,
            seconds=round(time.monotonic() - began, 3),
        )
        self.progress.sft_step_done(self.log_rows[-1])
        if number % self.config.checkpoint_every == 0 or number % self.steps_per_epoch == 0:
            await self._save()
        recent = [row["seconds"] for row in self.log_rows if row["kind"] == "sft"][-3:]
        self.clock.step = max(recent)

    async def _save(self) -> None:
        """Write a checkpoint of the present step, unless it is there."""
        if self.saved != self.step:
            self.directory.forget_summary()
            path = self.directory.checkpoint(self.step)
            await workers.call(self.learner.save, path, {"step": self.step}, name="checkpoint")
            self.saved = self.step

    async def _validate(self, label: str) -> None:
        """Measure the loss on what was held out, unless that was done at this step."""
        rows = self.rows.validation
        if not rows or any(row["kind"] == "sft_eval" and row["step"] == self.step for row in self.log_rows):
            return
        began = time.monotonic()
        loss, tokens = await workers.call(self.learner.mean_loss, rows, name="validation")
        self.clock.closing = time.monotonic() - began
        self.write("sft_eval", label=label, loss=loss, n=len(rows), tokens=tokens, seconds=round(self.clock.closing, 3))
        self.progress.sft_evaluated(self.log_rows[-1])

    def write(self, kind: str, **values: Any) -> None:
        """Write a row of the present step."""
        self.log_rows.append(self.log.append(kind, self.step, **values))


def best_step(rows: Sequence[Mapping[str, Any]]) -> int | None:
    """The step with the lowest validation loss, the earlier of equals; None without any."""
    found = [row for row in rows if row["kind"] == "sft_eval" and row["label"] == "step" and row["loss"] is not None]
    return min(found, key=lambda row: (row["loss"], row["step"]))["step"] if found else None


def loss_at(rows: Sequence[Mapping[str, Any]], step: int | None) -> dict[str, Any] | None:
    """The validation at a step, as the summary tells it; None if there was none."""
    row = next((row for row in rows if row["kind"] == "sft_eval" and row["step"] == step), None)
    return None if row is None else {"loss": row["loss"], "n": row["n"], "tokens": row["tokens"]}
