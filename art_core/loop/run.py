"""``train``: from an agent, scenarios and a reward to a LoRA and the figures before and after.

Everything cheap is checked first, so that bad input costs seconds: scenarios, configuration, the run directory, and the
agent and the reward once with a scripted model. Only then is a model loaded.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from art_core.errors import InputError, describe
from art_core.observe.metrics import MetricsLog, read_metrics
from art_core.observe.progress import Progress
from art_core.observe.report import write_report
from art_core.observe.sinks import Sink, SinkSet
from art_core.rewards.protocol import RewardLike
from art_core.rollout.protocol import Agent, AgentWithTools
from art_core.scenario import Scenarios
from art_core.training.manifest import latest
from art_core.trajectory.graph import DEFAULT_ADAPTER

from .backend import Backend
from .config import TrainConfig
from .deterministic import check_same_machine, computing
from .ending import failure, how_it_ended, release
from .interrupt import Interrupt
from .lending import check_lending, lend
from .plan import Plan, new_plan, resumed_plan
from .preflight import examine, preflight
from .result import RunResult
from .rundir import RunDir
from .start import own_start
from .stopping import Clock
from .summary import conclude
from .training_run import TrainingRun
from .versions import Versions, adapters_of
from .warm import Stage, WarmUp, needs_warm_start, own_adapter, warmed

__all__ = ["RunResult", "atrain", "open_backend"]


async def atrain(
    agent: Agent,
    scenarios: Scenarios | None = None,
    reward: RewardLike | None = None,
    *,
    base_model: str | None = None,
    config: TrainConfig | None = None,
    backend: Backend | None = None,
    validation: Scenarios | None = None,
    test: Scenarios | None = None,
    sinks: Sequence[Sink] = (),
    resume: str | Path | None = None,
    origin: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    warm_up: WarmUp | None = None,
) -> RunResult:
    """Train ``base_model`` to be a better model for ``agent``.

    Ctrl-C finishes the step, writes a checkpoint and returns; a second one aborts at once.

    Args:
        agent: any callable of (scenario, session), or an adapter of one of the integrations. Its async ``close``, if it
            has one, is called at the end.
        scenarios: what to train on, and to hold out ``validation`` and ``test`` from where those are not given.
        reward: a function of (trajectory, scenario), or a group reward such as a judge.
        base_model: a short name (``art models``), a directory or a model id.
        config: see ``TrainConfig``; for a resumed run only its limits may differ.
        backend: what samples and trains; by default everything in this process. One passed in is left open.
        resume: the directory of a run to go on with from its newest whole checkpoint. The scenarios are those of the run.
        origin: how to make agent and reward again, stored in run.toml: ``{"agent": {"kind": ...}, "reward": {...}}``.
        progress: shows what happens; None shows it on standard output.
        warm_up: does what ``config.warm_start`` asks for; ``art.train`` brings it.

    Raises:
        InputError: something given cannot be used.
        ArtError: the run failed; what was done so far is in its directory, and it can be resumed.
    """
    began = time.monotonic()
    shown = progress or Progress()
    if reward is None:
        raise InputError("a reward is needed: a function of (trajectory, scenario), or a group reward such as a judge")
    if resume is None:
        plan = new_plan(scenarios, validation, test, base_model, backend, config or TrainConfig(), origin or {})
    else:
        held_out = {"validation": validation, "test": test}
        plan = resumed_plan(Path(resume), scenarios, base_model, config, measured_on=held_out)
    check_lending(reward, str(plan.record["base_model"]), backend)
    stage = _first_stage(plan, warm_up, agent, backend)
    job = _Job(plan=plan, agent=agent, reward=reward, backend=backend, progress=shown, began=began)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(release, agent, reward)
        await _try_out(job)
        place = _taken(job, stack)
        if stage is not None:
            await _warm_up(job, place, stage)
        events = SinkSet(sinks, on_problem=shown.warn)
        run = await job.open(own_adapter(plan.settings, place.directory), place, events, stack, first=stage is None)
        return await _go(run, plan.record, untold=stage is not None)


def _first_stage(plan: Plan, warm_up: WarmUp | None, agent: Agent, backend: Backend | None) -> Stage | None:
    """The warm start, where one is still to be done.

    Raises:
        InputError: nothing given can do it.
    """
    if not needs_warm_start(plan.settings, plan.directory):
        return None
    if warm_up is None or backend is not None:
        raise InputError("warm_start needs art.train with a backend that it opens itself; leave backend out")
    return warm_up(plan.settings, plan.splits, agent)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a run is kept; held as long as it goes on."""

    directory: RunDir
    log: MetricsLog


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """What the parts of a run share."""

    plan: Plan
    agent: Agent
    reward: RewardLike
    backend: Backend | None
    progress: Progress
    began: float

    async def open(
        self, config: TrainConfig, place: _Place, sinks: SinkSet, stack: contextlib.AsyncExitStack, *, first: bool
    ) -> TrainingRun:
        """The run, with a backend that is open until ``stack`` is left.

        Args:
            first: nothing was done for it yet. A new run whose backend cannot be opened then leaves no directory.
        """
        record, directory, versions = self.plan.record, place.directory, Versions(adapters_of(self.agent))
        model, fresh = str(record["base_model"]), first and self.plan.directory is None
        opening = _backend(self.backend, model, config, directory, versions.adapters, fresh=fresh)
        opened = await stack.enter_async_context(opening)
        await lend(self.reward, opened)
        _record_computing(directory, record, opened, config)
        if config.deterministic and isinstance(self.agent, AgentWithTools):
            self.agent.keep_answers(directory.answers)
        interrupt = Interrupt(lambda: self.progress.note("stopping after this step; Ctrl-C again aborts at once"))
        return TrainingRun(
            agent=self.agent,
            reward=self.reward,
            backend=opened,
            config=config,
            splits=self.plan.splits,
            versions=versions,
            directory=directory,
            log=place.log,
            progress=self.progress,
            sinks=sinks,
            interrupt=stack.enter_context(interrupt),
            clock=Clock(limit=config.max_time),
            began=self.began,
        )


async def _try_out(job: _Job) -> None:
    """Everything cheap that shows whether the agent and the reward work; tools that were found go into the record.

    Raises:
        InputError: they do not.
    """
    plan, shown = job.plan, job.progress
    splits = plan.splits
    if tools := await examine(job.agent, (*splits.train, *splits.validation, *splits.test), shown.note):
        plan.record["tools"] = tools
    await preflight(job.agent, splits.train[0], job.reward, limits=plan.settings.rollout.limits, warn=shown.warn)


def _taken(job: _Job, stack: contextlib.AsyncExitStack) -> _Place:
    """The run's directory, locked until ``stack`` is left, with the configuration that holds now."""
    plan = job.plan
    directory = plan.place()
    stack.enter_context(directory.lock())
    if plan.record.get("config") != plan.settings.to_dict():
        plan.record["config"] = plan.settings.to_dict()
        directory.write_record(plan.record)
    if plan.settings.deterministic:
        job.progress.note("deterministic: every completion is computed as if it were alone, which samples more slowly")
    return _Place(directory=directory, log=stack.enter_context(MetricsLog(directory.metrics, began=job.began)))


async def _warm_up(job: _Job, place: _Place, stage: Stage) -> None:
    """Measure the base model, then do the stage that the run begins from.

    Raises:
        KeyboardInterrupt: the user stopped it; the run can be resumed.
    """
    directory = place.directory
    async with contextlib.AsyncExitStack() as stack:
        untold = SinkSet((), on_problem=job.progress.warn)  # sinks are told when the run begins
        run = await job.open(job.plan.settings, place, untold, stack, first=True)
        run.rows = read_metrics(directory.metrics)
        await run.evaluate("before", "validation")
        await run.evaluate("before", "test")
        if run.interrupt.asked:
            job.progress.note(f"to go on: art train --resume {directory.path}")
            raise KeyboardInterrupt
    await warmed(stage, directory, job.plan.record, job.progress)


def _record_computing(directory: RunDir, record: dict[str, Any], backend: Backend, config: TrainConfig) -> None:
    """Record what decides numbers when the run begins; a deterministic one that goes on must find the same.

    Raises:
        InputError: it does not; names what differs.
    """
    environment, using = record.setdefault("environment", {}), {"computing": computing(backend.describe())}
    if "computing" not in environment:
        environment |= using
        directory.write_record(record)
    elif config.deterministic:
        check_same_machine(environment, using)


def open_backend(base_model: str, config: TrainConfig, adapters: Sequence[str] = (DEFAULT_ADAPTER,)) -> Backend:
    """The backend for this machine: everything in this process. Loads the model.

    Raises:
        InputError: the model is unknown, not fetched, or a package is missing.
    """
    from .embedded import EmbeddedBackend

    return EmbeddedBackend(base_model, config, adapters)


async def _go(run: TrainingRun, record: Mapping[str, Any], *, untold: bool) -> RunResult:
    """Restore, train, and leave a summary and a report whatever happens; sinks are told of ``untold`` rows that are there."""
    loading = await _restore(run)
    title = f"Training {record['base_model']}"
    using = run.backend.describe()
    facts = {
        "model": f"{using['base_model']} on {using.get('device')}, computing in {using.get('precision')}",
        **{name: using[name] for name in ("chat template",) if name in using},
        "scenarios": ", ".join(f"{len(getattr(run.splits, name))} {name}" for name in ("train", "validation", "test")),
        "run": run.directory.path,
    }
    run.progress.run_started(title=title, facts=facts, steps=run.config.steps, max_seconds=run.config.max_time)
    run.sinks.on_run_start({"name": run.directory.path.name, **record})
    for row in run.rows if untold else ():
        run.sinks.on_metrics(row)
    run.write("event", event="resumed" if run.step else "started", seconds_load=round(loading, 3))
    stop, error = await how_it_ended(run.go)
    run.write("event", event="stopped", reason=stop.reason, text=stop.text)
    if stop.reason == "interrupted" or error is not None:
        run.progress.note(f"to go on: art train --resume {run.directory.path}")
    result = conclude(run, record, stop)
    run.sinks.on_run_end(result.summary)
    for name, lost in (await asyncio.to_thread(run.sinks.close)).items():
        run.progress.warn(f"sink {name} lost {lost} events")
    _report(run)
    run.progress.close()
    if error is not None:
        raise failure(error, run.step)
    return result


async def _restore(run: TrainingRun) -> float:
    """Go to the newest whole checkpoint, if there is one; returns the seconds since the run began: loading."""
    found = latest(run.directory.checkpoints)
    for path, reason in found.skipped:
        run.progress.warn(f"checkpoint {path.name} is left out: {reason}")
    step = found.step or 0
    run.log.rewind(step)
    run.directory.rewind(step)
    run.rows = read_metrics(run.directory.metrics)
    if found.path is not None:
        run.restore(await asyncio.to_thread(run.backend.load, found.path))
        await run.versions.publish(run.backend)
    return time.monotonic() - run.began


def _report(run: TrainingRun) -> None:
    try:
        write_report(run.directory.path, run.backend.decode)
    except Exception as error:  # noqa: BLE001 - the run is done and stored; its page can be made again
        run.progress.warn(f"report.html was not written: {describe(error)}; try: art report {run.directory.path}")


@contextlib.asynccontextmanager
async def _backend(
    given: Backend | None,
    model: str,
    config: TrainConfig,
    directory: RunDir,
    adapters: Sequence[str],
    *,
    fresh: bool,
) -> AsyncIterator[Backend]:
    """The backend to use. If ours cannot be opened, a ``fresh`` run directory is removed again."""
    if given is not None:
        yield given
        return
    try:
        backend = await asyncio.to_thread(open_backend, model, own_start(config, directory.start), adapters)
    except BaseException:
        if fresh:
            shutil.rmtree(directory.path)
        raise
    try:
        yield backend
    finally:
        await backend.close()
