"""Which adapter an export is of: found from a run's directory, a checkpoint's, or that of any PEFT adapter."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from art_core.errors import InputError, MissingExtra
from art_core.models.adapter import only_adapter
from art_core.training.manifest import MANIFEST, Found, verify

from .rundir import RunDir

__all__ = ["AdapterSource", "find_source"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterSource:
    """An adapter, its base, and what is known of where it comes from."""

    directory: Path
    base_model: str
    run: str | None = None
    """Name of the run, where there is one."""
    step: int | None = None
    summary: Mapping[str, Any] | None = None
    """The run's summary, if the run has ended."""
    measured: bool = False
    """Whether this is the adapter that ``summary["after"]`` was measured with."""
    notes: tuple[str, ...] = ()
    """What the user should know about the choice."""


def find_source(given: Path, *, step: int | None = None, model: str | None = None) -> AdapterSource:
    """The adapter of a run (that of ``step``, or the one its summary chose, or the newest whole one) or of a directory.

    ``model`` is needed where nothing names the base model; elsewhere it replaces what does, and a note says so.

    Raises:
        InputError: there is no such adapter, or it is damaged.
    """
    if (given / "run.toml").is_file():
        return _of_run(RunDir.open(given), step, model)
    if step is not None:
        raise InputError(f"step {step} can only be chosen from a run, and {str(given)!r} is none: it has no run.toml")
    if not (given / "adapter_config.json").is_file():
        has = "does not exist" if not given.exists() else "has neither run.toml nor adapter_config.json"
        raise InputError(f"{str(given)!r} is not a run, a checkpoint or a PEFT adapter: it {has}")
    if (given / MANIFEST).is_file():
        verify(given)
    run = given.absolute().parent.parent
    if given.absolute().parent.name == "checkpoints" and (run / "run.toml").is_file():
        return _with_run(RunDir(run), given, model, ())
    return _of_directory(given, model)


def _of_run(run: RunDir, step: int | None, model: str | None) -> AdapterSource:
    found = run.chosen() if step is None else Found(path=run.checkpoint(step), step=step, skipped=())
    path = found.path
    notes = tuple(f"checkpoint {skipped.name} is left out: {reason}" for skipped, reason in found.skipped)
    if path is None or not path.is_dir():
        kept = ", ".join(str(int(found.name[5:])) for found in sorted(run.checkpoints.glob("step-*[0-9]")))
        wanted = f"no checkpoint {path.name}" if path else "no whole checkpoint"
        raise InputError(f"run {str(run.path)!r} has {wanted}; those of these steps are there: {kept or 'none'}")
    verify(path)
    path = only_adapter(path)
    return _with_run(run, path, model, notes)


def _with_run(run: RunDir, path: Path, model: str | None, notes: tuple[str, ...]) -> AdapterSource:
    summary, recorded = run.read_summary(), str(run.read_record()["base_model"])
    chosen = (summary or {}).get("checkpoint")
    return AdapterSource(
        directory=path,
        base_model=model or recorded,
        run=run.path.absolute().name,
        step=int(path.name.removeprefix("step-")) if path.name.removeprefix("step-").isdecimal() else None,
        summary=summary,
        measured=bool(chosen) and (run.path / str(chosen)).absolute() == path.absolute(),
        notes=(*notes, *_replaced(recorded, model)),
    )


def _of_directory(given: Path, model: str | None) -> AdapterSource:
    step, recorded = None, None
    if (given / "trainer.json").is_file():
        extra = _read_extra(given)
        step, recorded = extra.get("step"), extra.get("base_model")
    else:
        try:
            config = json.loads((given / "adapter_config.json").read_text(encoding="utf-8"))
            recorded = config.get("base_model_name_or_path")
        except (OSError, ValueError, AttributeError) as error:
            raise InputError(f"{given / 'adapter_config.json'} cannot be read: {error}") from error
    if not (model or recorded):
        raise InputError(f"adapter {str(given)!r} does not name its base model; name it with --model")
    return AdapterSource(
        directory=given, base_model=str(model or recorded), step=step, notes=_replaced(str(recorded or ""), model)
    )


def _replaced(recorded: str, model: str | None) -> tuple[str, ...]:
    if not model or not recorded or model == recorded:
        return ()
    return (f"the adapter was trained on {recorded!r}; {model!r} is used in its place, as you said",)


def _read_extra(directory: Path) -> dict[str, Any]:
    try:
        from art_core.training.checkpoint import read_extra  # here, because it loads torch
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("art_core"):
            raise
        raise MissingExtra(error.name, "train") from error
    return read_extra(directory)
