"""The run directory: where everything of a run lies, and how it is written so that a crash never leaves half a file.

    run.toml                          what was asked for, on which machine, with which agent
    scenarios/{train,validation,test}.jsonl
    metrics.jsonl
    trajectories/step-NNNNNN.jsonl    appended as rollouts finish, replaced by the scored records when the step is done
    trajectories/eval-{before,after}.jsonl, eval-before-validation.jsonl, eval-step-NNNNNN.jsonl
    trajectories/eval-warm-start.jsonl, eval-compare-NAME.jsonl
    start-adapter/                    the adapter the run began from, if from one
    rows/{train,validation}.jsonl     of supervised fine-tuning, in the place of scenarios and trajectories
    checkpoints/step-NNNNNN/
    warm-start.jsonl, warm-start/     what a warm start learnt from, and its run of supervised fine-tuning
    tool-answers.jsonl                of a deterministic run, whose agent can keep them
    summary.json, pieces.json, report.html
    compare.json                      what art eval --compare found, and of which adapter

One process at a time may train in it.
"""

from __future__ import annotations

import datetime
import json
import re
import shutil
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from art_core.disk import write_whole
from art_core.errors import InputError
from art_core.training.manifest import Found, latest
from art_core.trajectory import store
from art_core.trajectory.trajectory import Trajectory

from .toml import dump_toml

__all__ = ["RunDir", "new_path"]

_STEP = re.compile(r"^step-(\d{6,})$")


class RunDir:
    """Paths and whole-file writes of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metrics = path / "metrics.jsonl"
        self.scenarios = path / "scenarios"
        self.checkpoints = path / "checkpoints"
        self.start = path / "start-adapter"
        self.report = path / "report.html"
        self.answers = path / "tool-answers.jsonl"

    @classmethod
    def create(
        cls,
        path: Path,
        record: Mapping[str, Any],
        fill: Callable[[RunDir], None],
        parts: Sequence[str] = ("trajectories", "checkpoints", "scenarios"),
    ) -> RunDir:
        """A new run directory with its record, these empty directories, and what ``fill`` writes; it appears whole, in one move.

        Raises:
            InputError: it holds something already, or cannot be written.
        """
        if path.is_dir() and any(path.iterdir()):
            raise InputError(
                f"run directory {str(path)!r} is not empty; choose another name, or go on with it: --resume {path}"
            )
        draft = cls(path.with_name(f".{path.name}.partial"))
        try:
            if draft.path.exists():
                shutil.rmtree(draft.path)
            for part in parts:
                (draft.path / part).mkdir(parents=True)
            fill(draft)
            draft.write_record(record)
            draft.path.rename(path)
        except BaseException as error:
            shutil.rmtree(draft.path, ignore_errors=True)
            if isinstance(error, OSError):
                raise InputError(f"run directory {str(path)!r} cannot be written: {error.strerror}") from error
            raise
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
        write_whole(self.path / "run.toml", dump_toml(record))

    def read_record(self) -> dict[str, Any]:
        """What run.toml holds.

        Raises:
            InputError: it is damaged.
        """
        try:
            return tomllib.loads((self.path / "run.toml").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{self.path / 'run.toml'} cannot be read: {error}") from error

    def read_training_record(self) -> dict[str, Any]:
        """What run.toml holds of a run that an agent was trained in.

        Raises:
            InputError: it is damaged, or of a run of supervised fine-tuning or of collected rollouts.
        """
        record = self.read_record()
        if record.get("kind") == "sft":
            raise InputError(
                f"run {str(self.path)!r} is supervised fine-tuning and has no agent and no reward; "
                f"to go on with it: art train sft --resume {self.path}"
            )
        if record.get("kind") == "collect":
            raise InputError(
                f"{str(self.path)!r} holds collected rollouts, not a run; to train from them: art train ... --warm-start {self.path}"
            )
        return record

    def checkpoint(self, step: int) -> Path:
        """Where the checkpoint of a step lies."""
        return self.checkpoints / f"step-{step:06d}"

    def chosen(self) -> Found:
        """The checkpoint that the summary chose; while there is none, the newest whole one."""
        name = (self.read_summary() or {}).get("checkpoint")
        if isinstance(name, str) and (match := _STEP.match((self.path / name).name)) and (self.path / name).is_dir():
            return Found(path=self.path / name, step=int(match[1]), skipped=())
        return latest(self.checkpoints)

    def journal(self, step: int) -> Path:
        """Where the trajectories of a step lie."""
        return self.path / "trajectories" / f"step-{step:06d}.jsonl"

    def evaluation(self, label: str, split: str, step: int) -> Path:
        """Where the trajectories of an evaluation lie."""
        name = f"step-{step:06d}" if label == "step" else label
        return (
            self.path / "trajectories" / f"eval-{name}{'' if split == 'test' or label == 'step' else f'-{split}'}.jsonl"
        )

    def comparison(self, subject: str) -> Path:
        """Where the trajectories of a subject of a comparison lie."""
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", subject).strip("-.")
        return self.path / "trajectories" / f"eval-compare-{name}.jsonl"

    def write_trajectories(self, path: Path, trajectories: Iterable[Trajectory]) -> None:
        """Make a file hold exactly these records, in one move."""
        draft = path.with_name(path.name + ".tmp")
        draft.unlink(missing_ok=True)
        draft.touch()
        for trajectory in trajectories:
            store.append(draft, trajectory)
        draft.replace(path)

    def forget_summary(self) -> None:
        """Remove summary.json: the run goes on, and is not what that told any more."""
        (self.path / "summary.json").unlink(missing_ok=True)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write summary.json."""
        write_whole(
            self.path / "summary.json", json.dumps(summary, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
        )

    def read_summary(self) -> dict[str, Any] | None:
        """What summary.json holds; None where the run has not ended yet.

        Raises:
            InputError: it is damaged.
        """
        return self.read_json("summary.json")

    def read_json(self, name: str) -> dict[str, Any] | None:
        """The object that a JSON file of the directory holds; None where there is no such file.

        Raises:
            InputError: it is damaged.
        """
        path = self.path / name
        if not path.is_file():
            return None
        try:
            return dict(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise InputError(f"{path} cannot be read: {error}") from error

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a JSON file of the directory in one move."""
        write_whole(self.path / name, json.dumps(value, ensure_ascii=False) + "\n")

    def rewind(self, step: int) -> None:
        """Remove the journals of steps after the one that follows ``step``: they were sampled by weights that are gone."""
        for path in (self.path / "trajectories").glob("step-*.jsonl"):
            if (match := _STEP.search(path.stem)) and int(match[1]) > step + 1:
                path.unlink()

    def checkpoint_steps(self) -> list[int]:
        """The steps whose checkpoints are there, damaged ones too, in order."""
        return sorted(int(match[1]) for path in self.checkpoints.iterdir() if (match := _STEP.search(path.name)))

    def keep_checkpoints(self, steps: Collection[int | None]) -> None:
        """Remove the checkpoints of all other steps, each in one move: a crash never leaves half of one."""
        for step in self.checkpoint_steps():
            if step not in steps:
                path = self.checkpoint(step)
                path.rename(path.with_name(f".{path.name}.removed"))
        for path in self.checkpoints.glob(".step-*.removed"):
            shutil.rmtree(path)


def new_path(out: str, name: str | None, base_model: str) -> Path:
    """The place of a new run: of that name, or of one made from the date and the model that is not taken yet.

    Raises:
        InputError: ``out`` holds a hundred runs of this second.
    """
    if name is not None:
        return Path(out) / name
    short = re.sub(r"[^A-Za-z0-9._-]+", "-", base_model.rstrip("/").rpartition("/")[2]).strip("-.") or "model"
    stem = f"{datetime.datetime.now():%Y%m%d-%H%M%S}-{short}"
    for number in range(1, 100):
        path = Path(out) / (stem if number == 1 else f"{stem}-{number}")
        if not path.exists():
            return path
    raise InputError(f"{out!r} holds {stem!r} a hundred times; give the run a name")
