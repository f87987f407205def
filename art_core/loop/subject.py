"""What ``art doctor --numerics`` measures: a run with its adapter and rollouts, or a model by name."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from art_core.errors import InputError
from art_core.models.adapter import only_adapter
from art_core.models.registry import resolve
from art_core.trajectory import store
from art_core.trajectory.trajectory import Trajectory

from .config import RunConfig, TrainConfig
from .rundir import RunDir

__all__ = ["Subject", "find_subject"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A base model, and what of a run belongs to it."""

    title: str
    base_model: str
    config: TrainConfig
    """The run's; the defaults for a model."""
    adapter: Path | None = None
    """None: a fresh one is made, with random weights that have an effect."""
    trajectories: tuple[Trajectory, ...] = ()
    """The rollouts of the run's last stored step."""


def find_subject(target: str) -> Subject:
    """The run in directory ``target``, or the model of that name. Loads no weights.

    Of a run the adapter is taken that its summary chose; while it has none, the newest.

    Raises:
        InputError: neither a run nor a model, or a run whose files cannot be read.
    """
    path = Path(target).expanduser()
    if (path / "run.toml").is_file():
        return _run(RunDir.open(path))
    try:
        resolve(target)
    except InputError as error:
        raise InputError(f"{target!r} is neither a run directory (it has no run.toml) nor a model: {error}") from error
    return Subject(title=f"model {target}, with a random adapter", base_model=target, config=TrainConfig())


def _run(directory: RunDir) -> Subject:
    record = directory.read_record()
    if not isinstance(record.get("base_model"), str):
        raise InputError(f"{directory.path / 'run.toml'} names no base_model")
    resolve(record["base_model"])
    chosen = directory.chosen().path
    adapter = None if chosen is None else only_adapter(chosen)
    told = "a random adapter, as it has no checkpoint" if adapter is None else f"the adapter of {adapter.name}"
    return Subject(
        title=f"run {directory.path}, with {told}",
        base_model=record["base_model"],
        config=_config(record),
        adapter=adapter,
        trajectories=tuple(_last_step(directory)),
    )


def _config(record: Mapping[str, Any]) -> TrainConfig:
    """The run's configuration; of supervised fine-tuning what it has in common with training, and the defaults."""
    config = dict(record.get("config") or {})
    if record.get("kind") == "sft":
        config = {name: value for name, value in config.items() if name in RunConfig.model_fields}
    return TrainConfig.build(config)


def _last_step(directory: RunDir) -> Sequence[Trajectory]:
    for path in sorted((directory.path / "trajectories").glob("step-*.jsonl"), reverse=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", store.CutRecord)
            found = list(store.read(path))
        if any(len(trajectory.graph) for trajectory in found):
            return found
    return ()
