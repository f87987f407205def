"""``art eval``: measure a checkpoint of a run on scenarios of your choice."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from art_core.errors import InputError
from art_core.loop.config import TrainConfig
from art_core.loop.ending import release
from art_core.loop.evaluate import Evaluation, evaluate, outcomes_of
from art_core.loop.lending import lend
from art_core.loop.preflight import examine
from art_core.loop.retention import best_step
from art_core.loop.run import open_backend
from art_core.loop.rundir import RunDir
from art_core.loop.splits import Splits
from art_core.loop.start import own_start
from art_core.loop.versions import Versions, adapters_of
from art_core.loop.warm import own_adapter
from art_core.observe.metrics import read_metrics
from art_core.observe.progress import Progress
from art_core.rewards.protocol import RewardLike
from art_core.rollout.protocol import Agent
from art_core.scenario import Scenario, load_scenarios
from art_core.training.manifest import latest

from .compare import check_subjects, compare_run, show_comparison
from .train import remake

__all__ = ["app"]

_EXAMPLE = """
```console
$ art eval runs/support --checkpoint base --split more.jsonl
$ art eval runs/support --compare original --price gpt-5-mini=0.25,2
```
"""

app = App(name="eval", help="Measure a checkpoint of a run.", help_epilogue=_EXAMPLE)


@app.default
def eval_run(
    run: Path,
    /,
    *,
    checkpoint: str = "best",
    split: str = "test",
    compare: tuple[str, ...] = (),
    price: tuple[str, ...] = (),
    json_output: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Measure a checkpoint of a run, one rollout per scenario, sampled as the run's evaluations are.

    Parameters
    ----------
    run
        The run's directory.
    checkpoint
        `best` (by the run's best_metric), `last`, the number of a step, `base` for the untrained model, or `start` for
        the adapter the run began from.
    split
        `test`, `validation`, or a JSONL file of scenarios.
    compare
        Measure instead what the adapter replaces, on the run's test scenarios: `original` for the unchanged agent with its own
        models, `provider/model` or `model@URL` for that one in their place. May come several times.
    price
        MODEL=IN,OUT: US dollars for a million tokens, for the costs of a comparison; `trained` is the run's own adapter.
        May come several times.
    json_output
        Print one JSON object.
    """
    directory = RunDir.open(run)
    record = directory.read_training_record()
    config = TrainConfig.build(record.get("config") or {})
    _check_comparison(compare, checkpoint, split)
    check_subjects(compare, price)
    agent, reward = remake(record, run)
    progress = Progress(as_json=json_output)
    if compare:
        try:
            found = compare_run(directory, compare, agent, reward, config, price, progress)
        finally:
            progress.close()
        if json_output:
            print(json.dumps({"run": str(run), "compare": found}, ensure_ascii=False))
        else:
            show_comparison(found, run)
        return
    chosen = find_checkpoint(directory, checkpoint, config)
    scenarios = _scenarios(directory, split)
    config = _opened(config, directory, checkpoint)
    try:
        result = asyncio.run(
            _measure(str(record["base_model"]), config, chosen, split, scenarios, agent, reward, progress)
        )
    finally:
        progress.close()
    if json_output:
        name = chosen.name if chosen else checkpoint
        told: dict[str, Any] = {"run": str(run), "checkpoint": name, "split": split, **result.to_summary()}
        print(json.dumps(told, ensure_ascii=False))


def _check_comparison(compare: Sequence[str], checkpoint: str, split: str) -> None:
    """
    Raises:
        InputError: options that do not go together.
    """
    if compare and (checkpoint, split) != ("best", "test"):
        raise InputError(
            "--compare measures the run's best checkpoint on its test scenarios; leave --checkpoint and --split out"
        )


def find_checkpoint(directory: RunDir, name: str, config: TrainConfig) -> Path | None:
    """The directory of ``best`` (as the run's ``config`` has it), ``last`` or a step's number; None for ``base`` and ``start``.

    Raises:
        InputError: there is none of that name.
    """
    if name == "start" and not directory.start.is_dir():
        raise InputError(f"run {str(directory.path)!r} began from the base model, so it has no checkpoint 'start'")
    if name in ("base", "start"):
        return None
    if name.isdecimal():
        path: Path | None = directory.checkpoint(int(name))
    elif name in ("best", "last"):
        best = None
        if name == "best" and directory.metrics.is_file():
            rows, there = read_metrics(directory.metrics), directory.checkpoint_steps()
            first = config.first_checkpoint
            best = best_step(rows, config.best_metric, config.best_mode, first=first, among=there)
        path = directory.checkpoint(best) if best is not None else latest(directory.checkpoints).path
    else:
        raise InputError(f"checkpoint {name!r} is not best, last, base, start or the number of a step")
    if path is None or not path.is_dir():
        kept = ", ".join(str(int(found.name[5:])) for found in sorted(directory.checkpoints.glob("step-*[0-9]")))
        raise InputError(
            f"run {str(directory.path)!r} has no checkpoint {name!r}; those of these steps are kept: {kept or 'none'}"
        )
    return path


def _opened(config: TrainConfig, directory: RunDir, checkpoint: str) -> TrainConfig:
    """The configuration for a backend that serves the run's own starting adapter if that is to be measured, else the base."""
    if checkpoint == "start":
        return own_adapter(own_start(config, directory.start), directory)
    return config.model_copy(update={"lora": config.lora.model_copy(update={"start": None})})


def _scenarios(directory: RunDir, split: str) -> Sequence[Scenario]:
    if split not in ("test", "validation"):
        return load_scenarios(split)
    found: Sequence[Scenario] = getattr(Splits.read(directory.scenarios), split)
    if not found:
        raise InputError(f"run {str(directory.path)!r} held out no {split} scenarios; give a JSONL file with --split")
    return found


async def _measure(
    base_model: str,
    config: TrainConfig,
    checkpoint: Path | None,
    split: str,
    scenarios: Sequence[Scenario],
    agent: Agent,
    reward: RewardLike,
    progress: Progress,
) -> Evaluation:
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(release, agent, reward)
        await examine(agent, scenarios, progress.note)
        versions = Versions(adapters_of(agent))
        backend = await asyncio.to_thread(open_backend, base_model, config, versions.adapters)
        stack.push_async_callback(backend.close)
        await lend(reward, backend)
        step = 0
        if checkpoint is not None:
            extra = await asyncio.to_thread(backend.load, checkpoint)
            step = int(extra["step"])
            versions.restore(extra["updates"])
            await versions.publish(backend)
        progress.evaluating(checkpoint.name if checkpoint else "start" if config.lora.start else "base", len(scenarios))
        began = time.monotonic()
        rollouts = await evaluate(
            agent,
            scenarios,
            backend.policy(*versions),
            reward=reward,
            concurrency=config.rollout.concurrency,
            limits=config.rollout.limits,
            seed=config.seed,
            step=step,
            on_rollout=progress.rollout_done,
        )
    result = Evaluation(
        split=split,
        label="step",
        step=step,
        version=str(versions),
        outcomes=outcomes_of(rollouts),
        seconds=time.monotonic() - began,
    )
    progress.evaluated({"step": step, **result.row()})
    return result
