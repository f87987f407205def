"""summary.json: what a run came to, made from its rows and files alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from art_core.observe.adapters import accounts
from art_core.observe.ledger import Ledger
from art_core.rewards.protocol import ToldReward

from .comparison import kept
from .evaluate import Evaluation, gain
from .paying import account_of
from .result import RunResult
from .stopping import Stop
from .training_run import TrainingRun
from .versions import Versions

__all__ = ["conclude"]

SCHEMA = 1
_STAGES = ("rollout", "train", "reload", "checkpoint")


def conclude(run: TrainingRun, record: Mapping[str, Any], stop: Stop) -> RunResult:
    """Write summary.json and give the result."""
    chosen = run.checkpoints.chosen(run.rows, run.step)
    checkpoint = run.directory.checkpoint(chosen) if chosen in run.directory.checkpoint_steps() else None
    train = [row for row in run.rows if row["kind"] == "train"]
    before, after = run.evaluated("before", "test"), run.evaluated("after", "test")
    versions = {0: str(Versions(run.versions.adapters)), **{row["step"]: row["version"] for row in train}}
    if after and after.version != versions.get(chosen):
        after = None  # of an adapter that was chosen before, by another figure
    difference = gain(before, after) if before and after else None
    warm = run.evaluated("warm-start", "test")
    comparison = kept(run.directory, checkpoint, run.progress.warn)
    summary = {
        "schema": SCHEMA,
        "name": run.directory.path.name,
        "base_model": record["base_model"],
        "steps": run.step,
        "updates": sum(row["updated"] for row in train),
        "stop_reason": stop.reason,
        "stop_text": stop.text,
        "seed": run.config.seed,
        "before": before.to_summary() if before else None,
        "after": after.to_summary() if after else None,
        "gain": difference.to_summary() if difference else None,
        **({"measured_by": run.reward.measured_by} if isinstance(run.reward, ToldReward) else {}),
        **({"warm_start": _warm_start(record, warm, after)} if run.config.warm_start else {}),
        **({"compare": comparison} if comparison else {}),
        "best_step": chosen if checkpoint else None,
        "checkpoint": str(checkpoint.relative_to(run.directory.path)) if checkpoint else None,
        "ledger": _ledger(train).to_dict(),
        **({"adapters": {one.name: one.to_dict() for one in of_each}} if (of_each := accounts(train)) else {}),
        **({"judge": account_of(run.rows).to_dict()} if any("judge" in row for row in run.rows) else {}),
        "seconds": _seconds(run.rows),
        "scenarios": _scenarios(run, train),
        "machine": {**record.get("environment", {}), **run.backend.describe()},
    }
    run.directory.write_summary(summary)
    return RunResult(
        run_dir=run.directory.path,
        adapter=checkpoint,
        before=before,
        after=after,
        gain=difference,
        warm_start=warm,
        stop_reason=stop.reason,
        summary=summary,
    )


def _warm_start(record: Mapping[str, Any], warm: Evaluation | None, after: Evaluation | None) -> dict[str, Any]:
    """What the run began from: its figures, what was trained after it over it, and what it was fine-tuned on."""
    over = gain(warm, after) if warm and after else None
    return {
        "measured": warm.to_summary() if warm else None,
        "gain": over.to_summary() if over and over.difference is not None else None,
        "data": record.get("warm_start"),
    }


def _ledger(train: Sequence[Mapping[str, Any]]) -> Ledger:
    total = Ledger()
    for row in train:
        total = total + Ledger.from_dict(row["ledger"])
    return total.settled()


def _seconds(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Seconds per stage over all resumes, and in total."""
    stages = {
        name: sum(row.get(f"seconds_{name}") or 0.0 for row in rows if row["kind"] == "train") for name in _STAGES
    }
    stages["evaluate"] = sum(row["seconds"] for row in rows if row["kind"] == "eval")
    stages["load"] = sum(row.get("seconds_load") or 0.0 for row in rows if row["kind"] == "event")
    stages["total"] = rows[-1]["time_s"] if rows else 0.0
    return {name: round(value, 3) for name, value in stages.items()}


def _scenarios(run: TrainingRun, train: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    sizes = {name: len(getattr(run.splits, name)) for name in ("train", "validation", "test")}
    if run.config.rollout.curriculum == "none":
        drawn = len(train) * run.config.rollout.scenarios_per_step
    else:
        drawn = len({name for row in train for name in row["curriculum"]["groups"]})
    return {**sizes, "trained_on": min(drawn, sizes["train"])}
