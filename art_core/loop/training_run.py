"""One run from its first evaluation to its last: steps, checkpoints, validations, and when to stop.

    evaluate before ─► ( step ─► checkpoint ─► row ─► validation when due )* ─► best adapter ─► evaluate after

Everything a decision needs is in the rows of metrics.jsonl and in the checkpoint, so a run that was killed anywhere
goes on as if it had not been. A step is committed by its checkpoint; its row follows and is in the checkpoint too.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from art_core import workers
from art_core.errors import InputError, RewardError
from art_core.observe.metrics import MetricsLog
from art_core.observe.progress import Progress
from art_core.observe.sinks import SinkSet
from art_core.rewards.protocol import RewardLike
from art_core.rollout.protocol import Agent
from art_core.scenario import Scenario
from art_core.training.manifest import is_whole
from art_core.trajectory import store
from art_core.trajectory.trajectory import Trajectory, TrajectoryGroup

from .backend import Backend
from .batch import Batch, make_batch
from .checkpoints import Checkpoints
from .config import TrainConfig
from .curriculum import Curriculum
from .deterministic import refuse_time_limits
from .evaluate import Evaluation, Label, evaluate, outcomes_of
from .experience import gather_step
from .interrupt import Interrupt
from .learning import check_versions, figures_of, gap_between, learn
from .paying import Meter, purse
from .rundir import RunDir
from .splits import Schedule, Splits
from .stopping import Clock, Stop, why_stop
from .versions import Versions

__all__ = ["TrainingRun"]

Row = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class TrainingRun:
    """A run that goes on. ``step`` and ``versions`` say where it stands; ``rows`` is what metrics.jsonl holds."""

    agent: Agent
    reward: RewardLike
    backend: Backend
    config: TrainConfig
    splits: Splits
    directory: RunDir
    log: MetricsLog
    progress: Progress
    sinks: SinkSet
    interrupt: Interrupt
    checkpoints: Checkpoints = field(init=False)
    rows: list[Row] = field(default_factory=list)
    step: int = 0
    versions: Versions = field(default_factory=Versions)
    """The weights being served: how many training steps changed each adapter."""
    curriculum: Curriculum | None = None
    """What draws the scenarios, if asked for."""
    clock: Clock = field(default_factory=lambda: Clock(limit=None))
    began: float = field(default_factory=time.monotonic)
    meter: Meter = field(init=False)
    _pass_tokens: int = field(init=False)
    _gap_told: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._pass_tokens = self.config.training.micro_batch_tokens
        self.meter = Meter(self.reward, self.directory.path)
        self.checkpoints = Checkpoints(directory=self.directory, config=self.config, warn=self.progress.warn)

    async def go(self) -> Stop:
        """Train until there is a reason to stop, and evaluate what came out."""
        self.meter.begin(self.rows)
        if self.step == 0:
            label: Label = "before" if self.config.warm_start is None else "warm-start"
            await self.evaluate(label, "validation")
            await self.evaluate(label, "test")
            await self._keep_start()
        self.checkpoints.prune(self.rows, self.step)
        size, seed = self.config.rollout.scenarios_per_step, self.config.seed
        schedule = Schedule(self.splits.train, size, seed=seed)
        if self.config.rollout.curriculum == "pass_rate":
            self.curriculum = Curriculum(self.splits.train, size, seed=seed)
        while not self.interrupt.asked:
            if self.step and self.step % self.config.evaluation.every == 0:
                await self.evaluate("step", "validation")
                self.checkpoints.prune(self.rows, self.step)
            self.clock.spent = time.monotonic() - self.began
            if stop := why_stop(self.rows, self.config, self.clock, purse(self.rows, self.meter.budget)):
                return await self._close(stop)
            if not self.interrupt.asked:
                chosen = self.curriculum.batch(self.rows) if self.curriculum else schedule.batch(self.step + 1)
                await self.take_step(chosen)
        return Stop(reason="interrupted", text=f"interrupted after step {self.step}")

    async def _keep_start(self) -> None:
        """Make the adapter that the run begins from, if any, its checkpoint 0: nothing worse can become its result."""
        place = self.directory.checkpoint(0)
        if self.config.first_checkpoint == 0 and not is_whole(place):
            extra = {"step": 0, "updates": self.versions.to_record(), "row": None}
            await workers.call(self.backend.save, place, extra, name="checkpoint")

    async def take_step(self, scenarios: Sequence[Scenario]) -> None:
        """Gather, train, publish, save: the next step."""
        number, began = self.step + 1, time.monotonic()
        self.progress.step_started(number, len(scenarios) * self.config.rollout.group_size)
        found = await gather_step(
            number,
            scenarios,
            agent=self.agent,
            reward=self.reward,
            policy=self.backend.policy(*self.versions),
            versions=self.versions,
            config=self.config,
            directory=self.directory,
            on_rollout=self._on_rollout,
            warn=self.progress.warn,
        )
        groups = found.groups
        if self.config.deterministic:
            refuse_time_limits(trajectory for group in groups for trajectory in group)
        batch = make_batch(
            groups,
            scale=self.config.advantage_scale,
            baseline=self.config.advantage_baseline,
            epsilon=self.config.advantage_epsilon,
            trained_per_group=self.config.trained_per_group,
            max_row_tokens=self.config.max_row_tokens,
        )
        check_versions(groups, batch, self.versions)
        self._record(number, groups, batch)
        seconds = {"rollout": time.monotonic() - began}
        figures = await self._train(batch, seconds)
        row = self._row(batch, figures, seconds, found.drawn_tokens) | self.meter.figures()
        if self.curriculum is not None:
            row["curriculum"] = self.curriculum.record(groups)
        start = time.monotonic()
        extra = {"step": number, "updates": self.versions.to_record(), "row": row}
        self.directory.forget_summary()
        await workers.call(self.backend.save, self.directory.checkpoint(number), extra, name="checkpoint")
        seconds["checkpoint"] = time.monotonic() - start
        self.step = number
        self.write("train", **row, seconds_checkpoint=round(seconds["checkpoint"], 3))
        self.checkpoints.prune(self.rows, self.step)
        self.progress.step_done(self.rows[-1])
        recent = [row["seconds_step"] for row in self.rows if row["kind"] == "train"][-3:]
        self.clock.step = max(recent) + seconds["checkpoint"]

    async def evaluate(self, label: Label, split: str) -> Evaluation | None:
        """Evaluate the weights being served; None if the split is empty or the user asked to stop meanwhile.

        Raises:
            RewardError: nothing could be scored before training; names the first reason.
            TrainerError: a time limit cut a rollout of a deterministic run off.
        """
        scenarios = getattr(self.splits, split)
        if not scenarios or self.interrupt.asked:
            return None
        if (known := self.evaluated(label, split)) and known.version == str(self.versions):
            return known
        began = time.monotonic()
        self.progress.evaluating(f"step {self.step}" if label == "step" else label, len(scenarios))
        rollouts = await self.interrupt.unless(self._evaluate(scenarios))
        if rollouts is None:
            return None
        if self.config.deterministic:
            refuse_time_limits(rollouts)
        seconds = time.monotonic() - began
        done = Evaluation(
            split=split,
            label=label,
            step=self.step,
            version=str(self.versions),
            outcomes=outcomes_of(rollouts),
            seconds=seconds,
        )
        if label == "before" and not done.n:
            reason = next((outcome.reason for outcome in done.outcomes if outcome.reason), "the reward gave none")
            raise RewardError(f"none of the {len(rollouts)} {split} rollouts has a score; the first reason: {reason}")
        self.directory.write_trajectories(self.directory.evaluation(label, split, self.step), rollouts)
        self.write("eval", **done.row(), **self.meter.figures())
        self.progress.evaluated(self.rows[-1])
        self._expect_closing()
        return done

    def evaluated(self, label: Label, split: str) -> Evaluation | None:
        """The evaluation of that label, at the present step unless it is one before the first, as it was written."""
        step = 0 if label in ("before", "warm-start") else self.step
        match = {"kind": "eval", "label": label, "split": split, "step": step}
        row = next((row for row in reversed(self.rows) if match.items() <= row.items()), None)
        path = self.directory.evaluation(label, split, step)
        if row is None or not path.is_file():
            return None
        return Evaluation(
            split=split,
            label=label,
            step=step,
            version=row["version"],
            outcomes=outcomes_of(store.read(path)),
            seconds=row["seconds"],
        )

    def write(self, kind: str, **values: Any) -> None:
        """Write a row of the present step."""
        row = self.log.append(kind, self.step, **values)
        self.rows.append(row)
        self.sinks.on_metrics(row)

    async def _close(self, stop: Stop) -> Stop:
        """Validate the last step if that was not due, choose the best adapter and measure it."""
        if not self.step:
            return stop
        await self.evaluate("step", "validation")
        self.checkpoints.prune(self.rows, self.step)
        best = self.checkpoints.chosen(self.rows, self.step)
        self.checkpoints.check_chosen(self.rows, self.step)
        if best != self.step:
            await self._serve(best)
        if not self.interrupt.asked:
            await self.evaluate("after", "test")
        if self.interrupt.asked:
            return Stop(reason="interrupted", text=f"interrupted in the evaluation after step {self.step}")
        return stop

    async def _serve(self, step: int) -> None:
        """Load and publish the adapter of an earlier step, to be measured."""
        better = f"the best adapter is that of step {step}"
        self.progress.note(better if step else "no step was better in validation than the adapter the run began from")
        extra = await workers.call(self.backend.load, self.directory.checkpoint(step), name="checkpoint")
        self.versions.restore(extra["updates"])
        await self.versions.publish(self.backend)

    async def _evaluate(self, scenarios: Sequence[Scenario]) -> list[Trajectory]:
        return await evaluate(
            self.agent,
            scenarios,
            self.backend.policy(*self.versions),
            reward=self.reward,
            concurrency=self.config.rollout.concurrency,
            limits=self.config.rollout.limits,
            seed=self.config.seed,
            step=self.step,
            on_rollout=self._on_rollout,
        )

    def _on_rollout(self, trajectory: Trajectory) -> None:
        self.progress.rollout_done(trajectory)
        self.sinks.on_rollout(trajectory)

    def _record(self, number: int, groups: Sequence[TrajectoryGroup], batch: Batch) -> None:
        """Replace the journal by the scored records, each with its fate."""
        rollouts = [trajectory for group in groups for trajectory in group]
        for trajectory in rollouts:
            trajectory.metadata["fate"] = batch.fates[trajectory.rollout_id]
        self.directory.write_trajectories(self.directory.journal(number), rollouts)

    async def _train(self, batch: Batch, seconds: dict[str, float]) -> dict[str, Any]:
        """Train on the batch and have the result served; the figures of the row."""
        reports = await learn(
            batch,
            self.backend,
            self.versions,
            seconds=seconds,
            on_progress=lambda fraction: self.progress.training(round(100 * fraction), 100),
        )
        figures = figures_of(batch, reports, self.versions)
        if (most := figures["micro_batch_tokens"]) is not None and most < self._pass_tokens:
            self._pass_tokens = most
            self.progress.warn(
                f"memory ran out in training; from now on at most {most} tokens go through the model at once"
            )
        if not self._gap_told and (problem := gap_between(figures, self.config.training)):
            self._gap_told = True
            self.progress.warn(
                f"step {self.step + 1}: {problem}; to look closer: art doctor --numerics {self.directory.path}"
            )
        return figures

    def _row(self, batch: Batch, figures: Mapping[str, Any], seconds: Mapping[str, float], drawn_tokens: int) -> Row:
        ledger = batch.ledger
        rollout_seconds = max(seconds["rollout"], 1e-9)
        return {
            **batch.figures(),
            "version": str(self.versions),
            "trained_tokens": ledger["trained"].tokens,
            "sampled_tokens": ledger["sampled"].tokens,
            "tokens_per_s": round(drawn_tokens / rollout_seconds, 3),
            **figures,
            **{f"seconds_{stage}": round(seconds.get(stage, 0.0), 3) for stage in ("rollout", "train", "reload")},
            "seconds_step": round(sum(seconds.values()), 3),
            "ledger": ledger.to_dict(),
        }

    def _expect_closing(self) -> None:
        """Estimate the evaluations at the end: as long as the last one of each split took."""
        last = {row["split"]: row["seconds"] for row in self.rows if row["kind"] == "eval"}
        self.clock.closing = sum(last.values())

    def restore(self, extra: Mapping[str, Any]) -> None:
        """Stand where a checkpoint was made, and write its row if the crash came before that.

        Raises:
            InputError: the checkpoint holds no position of a run.
        """
        try:
            self.step, row = int(extra["step"]), extra["row"]
            self.versions.restore(extra["updates"])
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"the checkpoint holds no position to go on from: {error}") from error
        if row is not None and not any(known["kind"] == "train" and known["step"] == self.step for known in self.rows):
            self.write("train", **row, seconds_checkpoint=None)
        self._expect_closing()
