"""Reading a run directory as it lies there: whole, half-written, or with parts missing.

Nothing here raises for what it finds inside of a run; what could not be read is named in ``notes``.
"""

from __future__ import annotations

import itertools
import json
import tomllib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from art_core.errors import InputError
from art_core.trajectory import store
from art_core.trajectory.trajectory import Trajectory

from .metrics import read_metrics
from .tokens import Pieces

__all__ = ["PIECES", "RunFiles", "is_supervised", "read_run"]

PIECES = "pieces.json"
MAX_EVAL_RECORDS = 2000
MAX_STEP_RECORDS = 400


@dataclass(slots=True, kw_only=True)
class RunFiles:
    """What a run directory holds, as far as a report needs it."""

    path: Path
    settings: list[tuple[str, str]] = field(default_factory=list)
    """Dotted key and printed value, in the order of run.toml."""
    written: dict[str, Any] = field(default_factory=dict)
    """What run.toml says of scenarios that a model wrote."""
    train_rows: list[dict[str, Any]] = field(default_factory=list)
    eval_rows: list[dict[str, Any]] = field(default_factory=list)
    sft_rows: list[dict[str, Any]] = field(default_factory=list)
    sft_eval_rows: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    before: list[Trajectory] = field(default_factory=list)
    after: list[Trajectory] = field(default_factory=list)
    steps: dict[int, list[Trajectory]] = field(default_factory=dict)
    """The rollouts of the first and the last stored training step."""
    pieces: Pieces | None = None
    notes: list[str] = field(default_factory=list)


def is_supervised(run: RunFiles) -> bool:
    """Whether the run imitated rows instead of training an agent."""
    return dict(run.settings).get("kind") == "sft" or bool(run.sft_rows)


def read_run(path: Path) -> RunFiles:
    """Read a run directory.

    Raises:
        InputError: it is no directory, or holds none of the files of a run.
    """
    if not path.is_dir():
        raise InputError(f"{str(path)!r} is not a run directory; it does not exist or is a file")
    known = ("run.toml", "metrics.jsonl", "summary.json", "trajectories")
    if not any((path / name).exists() for name in known):
        raise InputError(f"{str(path)!r} is not a run directory; none of {', '.join(known)} is in it")
    run = RunFiles(path=path)
    record = _toml(run, "run.toml")
    run.settings = list(_flat(record))
    run.written = record["written"] if isinstance(record.get("written"), dict) else {}
    run.summary = _json(run, "summary.json")
    _metrics(run)
    run.before = _trajectories(run, path / "trajectories" / "eval-before.jsonl", MAX_EVAL_RECORDS)
    run.after = _trajectories(run, path / "trajectories" / "eval-after.jsonl", MAX_EVAL_RECORDS)
    files = sorted((path / "trajectories").glob("step-*.jsonl"))
    for file in dict.fromkeys(files[:1] + files[-1:]):
        number = file.stem.removeprefix("step-")
        if number.isdecimal():
            run.steps[int(number)] = _trajectories(run, file, MAX_STEP_RECORDS)
    kept = _json(run, PIECES) if (path / PIECES).exists() else {}
    if kept:
        try:
            run.pieces = Pieces.from_dict(kept)
        except (ValueError, AttributeError):
            run.notes.append(f"{PIECES} is damaged; rollouts are shown without their tokens.")
    return run


def _metrics(run: RunFiles) -> None:
    path = run.path / "metrics.jsonl"
    if not path.exists():
        run.notes.append("metrics.jsonl is missing; there are no curves.")
        return
    try:
        rows = read_metrics(path)
    except InputError as error:
        run.notes.append(f"metrics.jsonl is damaged; there are no curves ({error}).")
        return
    run.train_rows = [row for row in rows if row["kind"] == "train"]
    run.eval_rows = [row for row in rows if row["kind"] == "eval"]
    run.sft_rows = [row for row in rows if row["kind"] == "sft"]
    run.sft_eval_rows = [row for row in rows if row["kind"] == "sft_eval"]


def _toml(run: RunFiles, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads((run.path / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        run.notes.append(f"{name} is missing or damaged; settings are not shown.")
        return {}


def _json(run: RunFiles, name: str) -> dict[str, Any]:
    try:
        value = json.loads((run.path / name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        run.notes.append(f"{name} is missing: the run has not ended, or did not end by itself.")
        return {}
    except (OSError, ValueError):
        run.notes.append(f"{name} is damaged and was left out.")
        return {}
    return value if isinstance(value, dict) else {}


def _trajectories(run: RunFiles, path: Path, limit: int) -> list[Trajectory]:
    """Up to ``limit`` records of a trajectory file; what was read before a damaged record is kept."""
    if not path.exists():
        return []
    found: list[Trajectory] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", store.CutRecord)
        try:
            for trajectory in itertools.islice(store.read(path), limit + 1):
                found.append(trajectory)
        except InputError as error:
            run.notes.append(f"{path.name} is damaged after {len(found)} rollouts; the rest was left out ({error}).")
    cut = sum(issubclass(warning.category, store.CutRecord) for warning in caught)
    if cut:
        run.notes.append(f"{path.name}: {cut} record{'s were' if cut > 1 else ' was'} cut off and left out.")
    if len(found) > limit:
        run.notes.append(f"{path.name} holds more than {limit} rollouts; the first {limit} were read.")
    return found[:limit]


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
