"""The run directory: where everything of a run lies, and how it is written so that a crash never leaves half a file.

    run.toml                          what was asked for, on which machine, with which agent
    scenarios/{train,validation,test}.jsonl
    metrics.jsonl
    trajectories/step-NNNNNN.jsonl    appended as rollouts finish, replaced by the scored records when the step is done
    trajectories/eval-{before,after}.jsonl, eval-before-validation.jsonl, eval-step-NNNNNN.jsonl
    checkpoints/step-NNNNNN/
    summary.json, pieces.json, report.html

One process at a time may train in it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from art_core.errors import InputError
from art_core.trajectory import store
from art_core.trajectory.trajectory import Trajectory

from .toml import dump_toml

__all__ = ["RunDir"]

_STEP = re.compile(r"^step-(\d{6,})$")


class RunDir:
    """Paths and whole-file writes of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metrics = path / "metrics.jsonl"
        self.scenarios = path / "scenarios"
        self.checkpoints = path / "checkpoints"
        self.report = path / "report.html"

    @classmethod
    def create(cls, path: Path) -> RunDir:
        """A new, empty run directory.

        Raises:
            InputError: it holds something already, or cannot be written.
        """
        if path.is_dir() and any(path.iterdir()):
            raise InputError(
                f"run directory {str(path)!r} is not empty; choose another name, or go on with it: --resume {path}"
            )
        try:
            path.mkdir(parents=True, exist_ok=True)
            for part in ("trajectories", "checkpoints", "scenarios"):
                (path / part).mkdir()
        except OSError as error:
            raise InputError(f"run directory {str(path)!r} cannot be written: {error.strerror}") from error
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> RunDir:
        """The directory of an existing run.

        Raises:
            InputError: it is not one.
        """
        if not (path / "run.toml").is_file():
            raise InputError(f"{str(path)!r} is not a run directory: it has no run.toml")
        return cls(path)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the directory for training.

        Raises:
            InputError: another process holds it.
        """
        lock = FileLock(self.path / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise InputError(f"run {str(self.path)!r} is being trained by another process") from error
        try:
            yield
        finally:
            lock.release()

    def write_record(self, record: Mapping[str, Any]) -> None:
        """Write run.toml."""
        _replace(self.path / "run.toml", dump_toml(record))

    def read_record(self) -> dict[str, Any]:
        """What run.toml holds.

        Raises:
            InputError: it is damaged.
        """
        try:
            return tomllib.loads((self.path / "run.toml").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{self.path / 'run.toml'} cannot be read: {error}") from error

    def checkpoint(self, step: int) -> Path:
        """Where the checkpoint of a step lies."""
        return self.checkpoints / f"step-{step:06d}"

    def journal(self, step: int) -> Path:
        """Where the trajectories of a step lie."""
        return self.path / "trajectories" / f"step-{step:06d}.jsonl"

    def evaluation(self, label: str, split: str, step: int) -> Path:
        """Where the trajectories of an evaluation lie."""
        name = f"step-{step:06d}" if label == "step" else label
        return (
            self.path / "trajectories" / f"eval-{name}{'' if split == 'test' or label == 'step' else f'-{split}'}.jsonl"
        )

    def write_trajectories(self, path: Path, trajectories: Iterable[Trajectory]) -> None:
        """Make a file hold exactly these records, in one move."""
        draft = path.with_name(path.name + ".tmp")
        draft.unlink(missing_ok=True)
        draft.touch()
        for trajectory in trajectories:
            store.append(draft, trajectory)
        draft.replace(path)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write summary.json."""
        _replace(self.path / "summary.json", json.dumps(summary, ensure_ascii=False, indent=2, allow_nan=False) + "\n")

    def write_json(self, name: str, value: Any) -> None:
        """Write a JSON file of the directory in one move."""
        _replace(self.path / name, json.dumps(value, ensure_ascii=False) + "\n")

    def rewind(self, step: int) -> None:
        """Remove the journals of steps after the one that follows ``step``: they were sampled by weights that are gone."""
        for path in (self.path / "trajectories").glob("step-*.jsonl"):
            if (match := _STEP.search(path.stem)) and int(match[1]) > step + 1:
                path.unlink()

    def checkpoint_steps(self) -> list[int]:
        """The steps whose checkpoints are there, damaged ones too, in order."""
        return sorted(int(match[1]) for path in self.checkpoints.iterdir() if (match := _STEP.search(path.name)))

    def keep_checkpoints(self, steps: Collection[int]) -> None:
        """Remove the checkpoints of all other steps, each in one move: a crash never leaves half of one."""
        for step in self.checkpoint_steps():
            if step not in steps:
                path = self.checkpoint(step)
                path.rename(path.with_name(f".{path.name}.removed"))
        for path in self.checkpoints.glob(".step-*.removed"):
            shutil.rmtree(path)


def _replace(path: Path, text: str) -> None:
    draft = path.with_name(path.name + ".tmp")
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
