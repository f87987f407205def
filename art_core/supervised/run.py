"""``sft``: from chats or stored rollouts to a LoRA that says what they say, and the validation loss before and after.

What is cheap is checked first: the file, the configuration, the adapter to start from, and every record through the chat
template. Only then is a directory made and a model loaded. The rows are stored in the run, so that it goes on without
the file and whatever a chat template says about the date.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from art_core.errors import InputError, describe
from art_core.loop.deterministic import computing
from art_core.loop.ending import failure, how_it_ended, run_blocking
from art_core.loop.environment import fingerprint
from art_core.loop.interrupt import Interrupt
from art_core.loop.rundir import RunDir, new_path
from art_core.loop.start import StartAdapter, begin, own_start
from art_core.loop.stopping import Clock, Stop
from art_core.observe.metrics import MetricsLog
from art_core.observe.progress import Progress
from art_core.observe.report import write_report

from .config import SftConfig
from .records import read_records, select
from .rows import MEANINGS, Prepared, Rows, prepare, steps_per_epoch
from .sft_run import SftRun, best_step, loss_at

if TYPE_CHECKING:
    from .learner import Learner

__all__ = ["SftResult", "asft", "sft"]

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SftResult:
    """What a run came to. ``print(result)`` shows it."""

    run_dir: Path
    adapter: Path | None
    """The LoRA with the lowest validation loss (the last one without validation); None if no checkpoint was made."""
    before: float | None
    """Mean validation loss per token in nats before training; None without validation."""
    after: float | None
    """That of ``adapter``."""
    stop_reason: str
    summary: Mapping[str, Any]
    """What summary.json holds."""

    def __str__(self) -> str:
        lines = [f"{self.summary['base_model']}, {self.summary['steps']} steps: {self.summary['stop_text']}"]
        if self.before is not None and self.after is not None:
            lines.append(f"loss    {self.before:.3f} before, {self.after:.3f} after, on held-out rows")
        lines.append(f"LoRA    {self.adapter or 'none: no checkpoint was made'}")
        lines.append(f"run     {self.run_dir}")
        return "\n".join(lines)


async def asft(
    data: str | Path | None = None,
    *,
    base_model: str | None = None,
    config: SftConfig | None = None,
    resume: str | Path | None = None,
    progress: Progress | None = None,
) -> SftResult:
    """Fine-tune ``base_model`` on what it should have said.

    Ctrl-C finishes the step, writes a checkpoint and returns; a second one aborts at once.

    Args:
        data: a JSONL file of chats (``messages``, ``tools``) or of stored rollouts, or the directory of a run, of which all
            rollouts that were sampled for training are meant.
        base_model: a short name (``art models``), a directory or a model id.
        config: see ``SftConfig``; for a resumed run only its limits may differ.
        resume: the directory of a run to go on with from its newest whole checkpoint; its rows are those it began with.
        progress: shows what happens; None shows it on standard output.

    Raises:
        InputError: something given cannot be used.
        ArtError: the run failed; what was done so far is in its directory, and it can be resumed.
    """
    began = time.monotonic()
    shown = progress or Progress()
    if resume is not None:
        directory, record, settings = _reopen(resume, data, base_model, config)
    else:
        directory, record, settings = await _create(data, base_model, config or SftConfig(), shown)
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(directory.lock())
        rows = Rows.read(directory.path / "rows")
        updates = settings.epochs * steps_per_epoch(len(rows.train), settings.batch_rows)
        opening = _learner(
            str(record["base_model"]),
            settings,
            updates,
            directory,
            precision=record.get("environment", {}).get("computing", {}).get("precision"),
            fresh=resume is None,
        )
        learner = await stack.enter_async_context(opening)
        _record_computing(directory, record, settings, learner)
        interrupt = Interrupt(lambda: shown.note("stopping after this step; Ctrl-C again aborts at once"))
        run = SftRun(
            learner=learner,
            config=settings,
            rows=rows,
            directory=directory,
            log=stack.enter_context(MetricsLog(directory.metrics, began=began)),
            progress=shown,
            interrupt=stack.enter_context(interrupt),
            clock=Clock(limit=settings.max_time),
            began=began,
        )
        return await _go(run, record)


def sft(data: str | Path | None = None, **options: Any) -> SftResult:
    """``asft`` for code without an event loop; see there for the options.

    Raises:
        InputError: an event loop is running in this thread, as in a notebook.
    """
    return run_blocking(asft, data, **options)


def _reopen(
    resume: str | Path, data: str | Path | None, base_model: str | None, config: SftConfig | None
) -> tuple[RunDir, dict[str, Any], SftConfig]:
    directory = RunDir.open(Path(resume))
    record = directory.read_record()
    if record.get("kind") != "sft":
        raise InputError(f"run {str(resume)!r} is no supervised fine-tuning; go on with: art train --resume {resume}")
    if data is not None:
        raise InputError(f"a resumed run keeps its rows; leave {str(data)!r} out")
    if base_model not in (None, record.get("base_model")):
        raise InputError(f"the run trains {record.get('base_model')!r}; it cannot go on with {base_model!r}")
    stored = SftConfig.build(record.get("config") or {})
    return directory, record, stored if config is None else stored.resumed(config)


async def _create(
    data: str | Path | None, base_model: str | None, config: SftConfig, shown: Progress
) -> tuple[RunDir, dict[str, Any], SftConfig]:
    """Check everything, then make the directory of a new run with its rows in it."""
    if data is None:
        raise InputError("data is needed: a JSONL file of chats or stored rollouts, or the directory of a run")
    if not base_model:
        raise InputError("base_model is needed, for example 'smollm2-135m'; see: art models")
    settings, start = begin(config, base_model)
    prepared = await asyncio.to_thread(_prepare, Path(data), base_model, settings)
    _tell(prepared, shown)
    record = {
        "kind": "sft",
        "base_model": base_model,
        "config": settings.to_dict(),
        "records": {"left_out": dict(prepared.left_out), "forked": prepared.forked},
        "environment": fingerprint(),
    }
    return _fill(record, settings, prepared.rows, start, data), record, settings


def _fill(
    record: dict[str, Any], config: SftConfig, rows: Rows, start: StartAdapter | None, data: str | Path
) -> RunDir:
    record["data"] = str(Path(data).resolve())
    if start is not None:
        record["start"] = start.to_record()

    def fill(directory: RunDir) -> None:
        rows.write(directory.path / "rows")
        if start is not None:
            start.copy(directory.start)

    path = new_path(config.out, config.name, record["base_model"])
    return RunDir.create(path, record, fill, ("checkpoints",))


def _prepare(data: Path, base_model: str, config: SftConfig) -> Prepared:
    """The rows of a file or a run.

    Raises:
        InputError: it cannot be read, was sampled by another model, or leaves nothing to train on.
    """
    if data.is_dir() and (data / "run.toml").is_file():
        sampled_by = RunDir.open(data).read_record().get("base_model")
        if sampled_by != base_model:
            raise InputError(f"the rollouts of {str(data)!r} were sampled by {sampled_by!r}, not by {base_model!r}")
    records = select(read_records(data), min_reward=config.min_reward, best=config.best)
    from .learner import open_renderer  # here, because it loads torch

    renderer, context = open_renderer(base_model)
    return prepare(
        records,
        renderer,
        max_row_tokens=min(context, config.max_row_tokens or context),
        validation_share=config.validation_share,
        seed=config.seed,
    )


def _tell(prepared: Prepared, shown: Progress) -> None:
    for reason, count in prepared.left_out.items():
        shown.note(f"left out: {count} {MEANINGS[reason]}")
    if prepared.reason:
        shown.warn(f"the chat template refused a record: {prepared.reason}")
    if prepared.forked:
        shown.note(f"{prepared.forked} chats are several rows each: the template renders their history differently")


@contextlib.asynccontextmanager
async def _learner(
    base_model: str, config: SftConfig, updates: int, directory: RunDir, *, precision: str | None, fresh: bool
) -> AsyncIterator[Learner]:
    """The learner, computing in ``precision`` where the run has begun in it. If it cannot be opened, a ``fresh`` run
    directory is removed again."""
    try:
        from .learner import Learner  # here, because it loads torch

        own = own_start(config, directory.start)
        if own.precision == "auto" and precision is not None:
            own = own.model_copy(update={"precision": precision})
        learner = await asyncio.to_thread(Learner, base_model, own, updates=updates)
    except BaseException:
        if fresh:
            shutil.rmtree(directory.path)
        raise
    yield learner


def _record_computing(directory: RunDir, record: dict[str, Any], config: SftConfig, learner: Learner) -> None:
    """Record what decides numbers when the run begins, and the limits it goes on with."""
    wanted = {**record, "config": config.to_dict()}
    wanted["environment"] = {"computing": computing(learner.describe()), **record.get("environment", {})}
    if wanted != record:
        directory.write_record(wanted)


async def _go(run: SftRun, record: Mapping[str, Any]) -> SftResult:
    """Restore, train, and leave a summary and a report whatever happens."""
    await run.restore()
    using = run.learner.describe()
    tokens = sum(row.trained_tokens for row in run.rows.train)
    facts = {
        "model": f"{using['base_model']} on {using['device']}, computing in {using['precision']}",
        "rows": f"{len(run.rows.train)} to train ({tokens:,} tokens), {len(run.rows.validation)} held out",
        "steps": f"{run.steps} in {run.config.epochs} epochs",
        "run": run.directory.path,
    }
    title = f"Supervised fine-tuning of {record['base_model']}"
    run.progress.run_started(title=title, facts=facts, steps=run.steps, max_seconds=run.config.max_time)
    loading = round(time.monotonic() - run.began, 3)
    run.write("event", event="resumed" if run.step else "started", seconds_load=loading)
    stop, error = await how_it_ended(run.go)
    run.write("event", event="stopped", reason=stop.reason, text=stop.text)
    if stop.reason == "interrupted" or error is not None:
        run.progress.note(f"to go on: art train sft --resume {run.directory.path}")
    result = _conclude(run, record, stop)
    try:
        write_report(run.directory.path)
    except Exception as problem:  # noqa: BLE001 - the run is done and stored; its page can be made again
        run.progress.warn(f"report.html was not written: {describe(problem)}; try: art report {run.directory.path}")
    run.progress.close()
    if error is not None:
        raise failure(error, run.step)
    return result


def _conclude(run: SftRun, record: Mapping[str, Any], stop: Stop) -> SftResult:
    """Write summary.json and give the result."""
    best = best_step(run.log_rows)
    chosen = (run.saved or None) if best is None else best
    adapter = run.directory.checkpoint(chosen) if chosen else None
    before, after = loss_at(run.log_rows, 0), loss_at(run.log_rows, chosen)
    trained = [row for row in run.log_rows if row["kind"] == "sft"]
    summary = {
        "schema": SCHEMA,
        "kind": "sft",
        "name": run.directory.path.name,
        "base_model": record["base_model"],
        "steps": run.step,
        "epochs": round(run.step / run.steps_per_epoch, 3),
        "stop_reason": stop.reason,
        "stop_text": stop.text,
        "seed": run.config.seed,
        "before": before,
        "after": after if chosen else None,
        "best_step": chosen,
        "checkpoint": str(adapter.relative_to(run.directory.path)) if adapter else None,
        "rows": {"train": len(run.rows.train), "validation": len(run.rows.validation)},
        "trained_tokens": sum(row["tokens"] for row in trained),
        **record["records"],
        "seconds": _seconds(run.log_rows),
        "machine": {**record.get("environment", {}), **run.learner.describe()},
    }
    run.directory.write_summary(summary)
    return SftResult(
        run_dir=run.directory.path,
        adapter=adapter,
        before=before["loss"] if before else None,
        after=after["loss"] if after and chosen else None,
        stop_reason=stop.reason,
        summary=summary,
    )


def _seconds(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Seconds per stage over all resumes, and in total."""
    stages = {
        "train": sum(row["seconds"] for row in rows if row["kind"] == "sft"),
        "evaluate": sum(row["seconds"] for row in rows if row["kind"] == "sft_eval"),
        "load": sum(row.get("seconds_load") or 0.0 for row in rows if row["kind"] == "event"),
        "total": rows[-1]["time_s"] if rows else 0.0,
    }
    return {name: round(value, 3) for name, value in stages.items()}
