"""``train``: from an agent, scenarios and a reward to a LoRA and the figures before and after.

Everything cheap is checked first, so that bad input costs seconds: scenarios, configuration, the run directory, and the
agent and the reward once with a scripted model. Only then is a model loaded.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import shutil
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from art_core.errors import InputError, describe
from art_core.observe.metrics import MetricsLog, read_metrics
from art_core.observe.progress import Progress
from art_core.observe.report import write_report
from art_core.observe.sinks import Sink, SinkSet
from art_core.rewards.protocol import RewardLike
from art_core.rollout.protocol import Agent, AgentWithTools
from art_core.scenario import Scenario, Scenarios, load_scenarios
from art_core.training.manifest import latest

from .backend import Backend
from .config import TrainConfig
from .curriculum import Curriculum
from .deterministic import check_same_machine, computing
from .ending import failure, how_it_ended, run_blocking
from .environment import fingerprint
from .figures import Metric
from .interrupt import Interrupt
from .preflight import preflight
from .result import RunResult
from .rundir import RunDir, new_path
from .splits import Schedule, Splits, make_splits
from .start import StartAdapter, begin, own_start
from .stopping import Clock
from .summary import conclude
from .training_run import TrainingRun

__all__ = ["RunResult", "atrain", "open_backend", "train"]


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

    Raises:
        InputError: something given cannot be used.
        ArtError: the run failed; what was done so far is in its directory, and it can be resumed.
    """
    began = time.monotonic()
    shown = progress or Progress()
    if reward is None:
        raise InputError("a reward is needed: a function of (trajectory, scenario), or a group reward such as a judge")
    if resume is not None:
        directory = RunDir.open(Path(resume))
        record = directory.read_training_record()
        settings = _resumed_config(record, config)
        splits = _resumed_splits(directory, scenarios)
        model = _resumed_model(record, base_model)
        if settings.deterministic:
            check_same_machine(record.get("environment", {}), fingerprint())
    else:
        model = _model(base_model, backend)
        settings, start = begin(config or TrainConfig(), model)
        splits = _splits(scenarios, validation, test, settings)
    _check_schedule(settings, splits)
    _check_validation(settings, splits)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(_release, agent)
        await preflight(agent, splits.train[0], reward, limits=settings.rollout.limits, warn=shown.warn)
        if resume is None:
            record = {"base_model": model, **(origin or {}), "config": settings.to_dict(), "environment": fingerprint()}
            directory = _create(settings, record, splits, start)
        stack.enter_context(directory.lock())
        if resume is not None and record.get("config") != settings.to_dict():
            record = {**record, "config": settings.to_dict()}
            directory.write_record(record)
        opened = await stack.enter_async_context(_backend(backend, model, settings, directory, fresh=resume is None))
        _record_computing(directory, record, opened, settings)
        if settings.deterministic:
            shown.note("deterministic: every completion is computed as if it were alone, which samples more slowly")
            if isinstance(agent, AgentWithTools):
                agent.keep_answers(directory.answers)
        interrupt = Interrupt(lambda: shown.note("stopping after this step; Ctrl-C again aborts at once"))
        run = TrainingRun(
            agent=agent,
            reward=reward,
            backend=opened,
            config=settings,
            splits=splits,
            directory=directory,
            log=stack.enter_context(MetricsLog(directory.metrics)),
            progress=shown,
            sinks=SinkSet(sinks, on_problem=shown.warn),
            interrupt=stack.enter_context(interrupt),
            clock=Clock(limit=settings.max_time),
            began=began,
        )
        return await _go(run, record)


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


async def _release(agent: Agent) -> None:
    """Let an agent that holds something over many rollouts, such as server sessions, let go of it."""
    close = getattr(agent, "close", None)
    if inspect.iscoroutinefunction(close):
        await close()


def train(
    agent: Agent, scenarios: Scenarios | None = None, reward: RewardLike | None = None, **options: Any
) -> RunResult:
    """``atrain`` for code without an event loop; see there for the options.

    Raises:
        InputError: an event loop is running in this thread, as in a notebook.
    """
    return run_blocking(atrain, agent, scenarios, reward, **options)


def open_backend(base_model: str, config: TrainConfig) -> Backend:
    """The backend for this machine: everything in this process. Loads the model.

    Raises:
        InputError: the model is unknown, not fetched, or a package is missing.
    """
    from .embedded import EmbeddedBackend

    return EmbeddedBackend(base_model, config)


async def _go(run: TrainingRun, record: Mapping[str, Any]) -> RunResult:
    """Restore, train, and leave a summary and a report whatever happens."""
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
        await run.backend.publish(run.version)
    return time.monotonic() - run.began


def _report(run: TrainingRun) -> None:
    try:
        write_report(run.directory.path, run.backend.decode)
    except Exception as error:  # noqa: BLE001 - the run is done and stored; its page can be made again
        run.progress.warn(f"report.html was not written: {describe(error)}; try: art report {run.directory.path}")


@contextlib.asynccontextmanager
async def _backend(
    given: Backend | None, model: str, config: TrainConfig, directory: RunDir, *, fresh: bool
) -> AsyncIterator[Backend]:
    """The backend to use. If ours cannot be opened, a ``fresh`` run directory is removed again."""
    if given is not None:
        yield given
        return
    try:
        backend = await asyncio.to_thread(open_backend, model, own_start(config, directory.start))
    except BaseException:
        if fresh:
            shutil.rmtree(directory.path)
        raise
    try:
        yield backend
    finally:
        await backend.close()


def _splits(
    scenarios: Scenarios | None, validation: Scenarios | None, test: Scenarios | None, config: TrainConfig
) -> Splits:
    if scenarios is None:
        raise InputError("scenarios are needed: a JSONL file, a list, or a function that returns them")
    return make_splits(
        load_scenarios(scenarios),
        validation=_held_out(validation, config.evaluation.validation),
        test=_held_out(test, config.evaluation.test),
        seed=config.seed,
    )


def _held_out(given: Scenarios | None, count: int) -> Sequence[Scenario] | int:
    """What was given, or how many to hold out where nothing was; an empty list is a wish for none."""
    if given is None:
        return count
    empty = isinstance(given, Sequence) and not isinstance(given, str) and not given
    return () if empty else load_scenarios(given)


def _model(base_model: str | None, backend: Backend | None) -> str:
    if base_model is None and backend is not None:
        return str(backend.describe()["base_model"])
    if not base_model:
        raise InputError("base_model is needed, for example 'smollm2-135m'; see: art models")
    return base_model


def _check_schedule(config: TrainConfig, splits: Splits) -> None:
    """
    Raises:
        InputError: too few training scenarios for a step, or for choosing among them.
    """
    kinds = [Schedule] if config.rollout.curriculum == "none" else [Schedule, Curriculum]
    for kind in kinds:
        kind(splits.train, config.rollout.scenarios_per_step, seed=config.seed)


def _check_validation(config: TrainConfig, splits: Splits) -> None:
    """
    Raises:
        InputError: there are no validation scenarios, and something that was asked for is measured on them.
    """
    metric = config.best_metric
    uses = {
        "target": config.target is not None,
        "patience": config.patience is not None,
        "best_metric": metric is not None and Metric.parse(metric).source == "validation",
    }
    asked = next((name for name, used in uses.items() if used), None)
    if asked is not None and not splits.validation:
        raise InputError(f"{asked} = {getattr(config, asked)!r} needs validation scenarios, and there are none")


def _resumed_config(record: Mapping[str, Any], config: TrainConfig | None) -> TrainConfig:
    stored = TrainConfig.build(record.get("config") or {})
    return stored if config is None else stored.resumed(config)


def _resumed_splits(directory: RunDir, scenarios: Scenarios | None) -> Splits:
    splits = Splits.read(directory.scenarios)
    if scenarios is not None:
        known = {scenario.id: scenario for part in (splits.train, splits.validation, splits.test) for scenario in part}
        for scenario in load_scenarios(scenarios):
            if known.get(scenario.id) != scenario:
                raise InputError(
                    f"scenario {scenario.id!r} is not among those run {str(directory.path)!r} began with; "
                    "a resumed run keeps its scenarios"
                )
    return splits


def _resumed_model(record: Mapping[str, Any], base_model: str | None) -> str:
    stored = str(record.get("base_model"))
    if base_model is not None and base_model != stored:
        raise InputError(f"the run trains {stored!r}; it cannot go on with {base_model!r}")
    return stored


def _create(config: TrainConfig, record: dict[str, Any], splits: Splits, start: StartAdapter | None) -> RunDir:
    if start is not None:
        record["start"] = start.to_record()

    def fill(directory: RunDir) -> None:
        splits.write(directory.scenarios)
        if start is not None:
            start.copy(directory.start)

    return RunDir.create(new_path(config.out, config.name, str(record["base_model"])), record, fill)
