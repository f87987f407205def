"""``export``: an adapter out of a run, in a form that other programs serve.

Everything cheap is checked first: where from, where to, room on the disk, the converter. The directory appears whole,
after what was written was loaded again and found to compute what the adapter does, or not at all.
"""

from __future__ import annotations

import contextlib
import math
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from art_core.errors import InputError, MissingExtra
from art_core.models.converter import OUTTYPES, find_converter
from art_core.models.registry import resolve
from art_core.models.sizes import stored_dtype, weight_count
from art_core.training.manifest import write_directory

from .export_card import write_card
from .export_source import AdapterSource, find_source

if TYPE_CHECKING:
    from art_core.models.export import ExportJob, Made

__all__ = ["Dtype", "ExportResult", "Form", "export"]

Form = Literal["adapter", "merged", "gguf"]
Dtype = Literal["float32", "bfloat16", "float16", "q8_0"]

_BYTES = {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0, "q8_0": 34 / 32}
_MARGIN = 32 << 20  # tokenizer, configuration, and what a file system needs for itself


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult:
    """What was exported. ``print(result)`` shows it."""

    path: Path
    form: Form
    dtype: str
    """Of the written weights."""
    base_model: str
    source: Path
    """The directory the adapter was read from."""
    step: int | None
    difference: float
    """The largest difference of any logprob between what was written, loaded again, and the adapter on its base; nats."""
    limit: float
    """What ``difference`` may be for this ``dtype``."""
    size: int
    """Bytes of all files."""
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        names = ("form", "dtype", "base_model", "step", "difference", "limit", "size")
        values = {name: getattr(self, name) for name in names}
        return {"path": str(self.path), "source": str(self.source), **values, "warnings": list(self.warnings)}

    def __str__(self) -> str:
        step = "" if self.step is None else f" of step {self.step}"
        kind = {"adapter": "adapter", "merged": "merged model", "gguf": "GGUF model"}[self.form]
        return "\n".join(
            [
                f"{kind}{step} in {self.path} ({self.dtype}, {self.size / 1e6:.1f} MB, base {self.base_model})",
                f"loaded again, its logprobs are within {self.difference:.2g} nats of the adapter's (limit {self.limit:g})",
                *(f"warning: {warning}" for warning in self.warnings),
            ]
        )


def export(
    source: str | Path,
    to: str | Path,
    *,
    step: int | None = None,
    form: Form = "adapter",
    dtype: Dtype | None = None,
    model: str | None = None,
    converter: str | Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> ExportResult:
    """Write the adapter of a run to the new directory ``to``, for serving.

    Args:
        source: the directory of a run, a checkpoint or any PEFT adapter.
        step: of the run's checkpoint; by default the one its summary chose, or the newest whole one.
        form: ``adapter`` (the default, because it is what training made: exact, small, and served beside others on one
            base), ``merged`` (the whole model, for what takes no adapters) or ``gguf`` (for llama.cpp).
        dtype: of the written weights; by default the adapter's own, or for a whole model that of its base.
        model: the base model, where the source does not name it or it is somewhere else now.
        converter: llama.cpp's ``convert_hf_to_gguf.py``, where it is not on the PATH.
        say: is told what is being done, a line at a time.

    Raises:
        InputError: something given cannot be used, or there is too little room; nothing was written.
        ArtError: what was written did not compute what the adapter does; nothing is left of it.
    """
    shown, target = Path(to), Path(to).resolve()
    command = _check_choice(form, dtype, converter)
    _check_target(target)
    found = find_source(Path(source), step=step, model=model)
    base = resolve(found.base_model)
    whole = dtype or (None if form == "adapter" else stored_dtype(base))
    _check_room(target, _needed(form, whole, base, found.directory))
    room = _room()
    job = room.ExportJob(
        adapter=found.directory,
        base_model=found.base_model,
        form=form,
        dtype=whole,
        converter=command,
        name=target.name,
    )
    made, warnings = _write(job, found, target, room.make, say)
    return ExportResult(
        path=shown,
        form=form,
        dtype=made.dtype,
        base_model=found.base_model,
        source=found.directory,
        step=found.step,
        difference=made.difference.largest,
        limit=made.limit,
        size=sum(file.stat().st_size for file in target.iterdir()),
        warnings=warnings,
    )


def _write(
    job: ExportJob,
    found: AdapterSource,
    target: Path,
    make: Callable[[ExportJob, Path, Path, Callable[[str], None]], Made],
    say: Callable[[str], None],
) -> tuple[Made, tuple[str, ...]]:
    """Fill a directory beside the target and move it into place; the warnings are those its card shows too."""
    done: list[tuple[Made, tuple[str, ...]]] = []
    with _beside(target) as work:

        def fill(place: Path) -> None:
            made = make(job, place, work, say)
            warnings = (*found.notes, *_warnings(job, made))
            card = write_card(place, job=job, made=made, found=found, warnings=warnings)
            for file in place.iterdir():  # weights come with an owner's rights only; a server may be somebody else
                file.chmod(card.stat().st_mode)
            done.append((made, warnings))

        write_directory(work / target.name, fill)
        try:
            (work / target.name).rename(target)
        except OSError as error:
            raise InputError(f"{str(target)!r} was made by somebody else in the meantime: {error.strerror}") from error
    return done[0]


def _warnings(job: ExportJob, made: Made) -> Iterator[str]:
    if made.faint:
        yield made.faint
    if made.unknown_stops and job.form != "merged":  # there its generation configuration names them
        texts = ", ".join(map(repr, made.unknown_stops))
        yield f"replies ended with {texts} in training, which the base model does not know as an end; have the server stop there"


@contextlib.contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """A directory for the work, on the disk of the target; gone afterwards, with what it needed above it if all is empty."""
    missing = [folder for folder in target.parents if not folder.exists()]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
    except OSError as error:
        raise InputError(f"{str(target)!r} cannot be written: {error.strerror}") from error
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
        for folder in missing:
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


def _check_choice(form: str, dtype: str | None, converter: str | Path | None) -> tuple[str, ...]:
    """The command of the converter, where one is needed."""
    if form not in get_args(Form):
        raise InputError(f"form {form!r} is not valid; valid ones: {', '.join(get_args(Form))}")
    if dtype is not None and dtype not in OUTTYPES:
        raise InputError(f"dtype {dtype!r} is not valid; valid ones: {', '.join(get_args(Dtype))}")
    if dtype == "q8_0" and form != "gguf":
        raise InputError(f"dtype 'q8_0' is of GGUF files only; for form {form!r} choose float32, bfloat16 or float16")
    if converter is not None and form != "gguf":
        raise InputError(f"a converter is used for form 'gguf' only, not for {form!r}")
    return find_converter(Path(converter) if converter else None) if form == "gguf" else ()


def _check_target(target: Path) -> None:
    if target.is_mount():
        raise InputError(f"{str(target)!r} is a mount point; export to a new directory in it")
    if target.is_dir() and any(target.iterdir()):
        raise InputError(f"{str(target)!r} is not empty; export to a new directory")
    if target.exists() and not target.is_dir():
        raise InputError(f"{str(target)!r} is a file; export to a new directory")


def _needed(form: Form, dtype: str | None, base: Path, adapter: Path) -> int:
    """Bytes an export takes while it is made."""
    if dtype is None:
        return sum(file.stat().st_size for file in adapter.glob("adapter_model.*"))
    count = weight_count(adapter if form == "adapter" else base)
    return math.ceil(count * (_BYTES[dtype] + (4 if form == "gguf" else 0)))


def _check_room(target: Path, needed: int) -> None:
    place = target.parent
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < needed + _MARGIN:
        raise InputError(
            f"the export needs {(needed + _MARGIN) / 1e9:.2f} GB on the disk of {str(place)!r}, and {free / 1e9:.2f} GB are free"
        )


def _room() -> Any:
    """The module that works with weights, imported when everything cheap was checked.

    Raises:
        MissingExtra: a package it needs is not installed.
    """
    try:
        from art_core.models import export as room
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("art_core"):
            raise
        raise MissingExtra(error.name, "train") from error
    return room
