"""The adapter a run begins from: found, checked without a model, and copied into the run.

A run reads only its own copy, ``start-adapter/``, which is there whole or not at all: it goes on and can be moved
whatever becomes of the place the adapter came from.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from art_core.errors import InputError
from art_core.models.adapter import CONFIG, WEIGHTS, only_adapter, read_shape
from art_core.models.config import LoraConfig
from art_core.training.manifest import MANIFEST, verify, write_directory

from .config import RunConfig
from .rundir import RunDir

__all__ = ["StartAdapter", "begin", "find_start", "own_start"]

C = TypeVar("C", bound=RunConfig)

_FILES = (CONFIG, WEIGHTS, "chat_template.jinja")


@dataclass(frozen=True, slots=True, kw_only=True)
class StartAdapter:
    """An adapter that a run can begin from."""

    path: Path
    """Its directory."""
    base_model: str | None
    """What it was trained on, where that is stored with it."""
    shape: LoraConfig
    """Its rank, alpha and targets."""

    def check(self, base_model: str) -> None:
        """
        Raises:
            InputError: the adapter is known to be one of another base model.
        """
        if self.base_model not in (None, base_model):
            raise InputError(
                f"lora.start {str(self.path)!r} is an adapter of {self.base_model!r}; it cannot begin a run of {base_model!r}"
            )

    def complete(self, lora: LoraConfig) -> LoraConfig:
        """``lora`` with the adapter's rank, alpha and targets.

        Raises:
            InputError: it sets one of them, and to something else.
        """
        done = lora.completed(self.shape)
        for name in ("rank", "alpha", "targets"):
            wanted, own = getattr(done, name), getattr(self.shape, name)
            if wanted != own and not (name == "targets" and set(wanted) == set(own)):
                raise InputError(
                    f"lora.{name} = {wanted!r}, but the adapter to start from, {str(self.path)!r}, has {own!r}; leave "
                    f"lora.{name} out to take it over"
                )
        return done.model_copy(update={"targets": self.shape.targets})

    def copy(self, directory: Path) -> None:
        """Make ``directory`` hold the adapter, whole or not at all."""

        def fill(place: Path) -> None:
            for name in _FILES:
                if (self.path / name).is_file():
                    shutil.copyfile(self.path / name, place / name)

        write_directory(directory, fill)

    def to_record(self) -> dict[str, Any]:
        """Where it came from, for run.toml."""
        return {"adapter": str(self.path.resolve()), "base_model": self.base_model}


def find_start(place: str | Path) -> StartAdapter:
    """The adapter in a PEFT directory; of a run's directory the one its summary chose, else its newest whole checkpoint.

    Raises:
        InputError: there is none, it is damaged, or it is not a plain LoRA.
    """
    given = Path(place).expanduser()
    if not given.is_dir():
        raise InputError(f"lora.start {str(place)!r} is no directory; give a PEFT adapter or a run with a checkpoint")
    path = given
    if not (given / CONFIG).is_file():
        if not (given / "run.toml").is_file():
            raise InputError(
                f"lora.start {str(place)!r} is neither an adapter (it has no {CONFIG}) nor a run (it has no run.toml)"
            )
        found = RunDir.open(given).chosen().path
        if found is None:
            raise InputError(
                f"lora.start {str(place)!r} is a run without a whole checkpoint, so there is no adapter to take"
            )
        path = only_adapter(found)
    if (path / MANIFEST).is_file():
        verify(path)
    return StartAdapter(path=path, base_model=_base_model(path), shape=read_shape(path))


def begin(config: C, base_model: str) -> tuple[C, StartAdapter | None]:
    """``config`` with what it takes over from the adapter that ``lora.start`` names, and that adapter.

    Raises:
        InputError: see ``find_start`` and ``StartAdapter``.
    """
    if config.lora.start is None:
        return config, None
    start = find_start(config.lora.start)
    start.check(base_model)
    return config.model_copy(update={"lora": start.complete(config.lora)}), start


def own_start(config: C, copy: Path) -> C:
    """``config`` as what trains in the run is to see it: it starts, if at all, from the run's own copy.

    Raises:
        InputError: the copy is missing or damaged.
    """
    if config.lora.start is None:
        return config
    verify(copy)
    return config.model_copy(update={"lora": config.lora.model_copy(update={"start": str(copy)})})


def _base_model(path: Path) -> str | None:
    """The base model that a checkpoint of ours was saved with."""
    try:
        name = json.loads((path / "trainer.json").read_text(encoding="utf-8"))["extra"]["base_model"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return name if isinstance(name, str) else None
