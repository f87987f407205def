"""metrics.jsonl: one writer, one JSON object a line, flushed row by row, steps that only go forward.

A number that is not finite is written as null, with a note in the row, so that every line is valid JSON. A line cut by
a crash is dropped when the file is opened again.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from art_core.disk import write_whole
from art_core.errors import InputError

__all__ = ["MetricsLog", "read_metrics"]

Row = dict[str, Any]

_ONCE = ("train", "sft")


class MetricsLog:
    """The only writer of a run's metrics.

    ``step`` never goes back within a kind, and a ``train`` or ``sft`` row is written once per step. ``began`` is the
    ``clock``'s time at which the run began to run; now, unless given.
    """

    def __init__(self, path: Path, *, began: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._began = clock() if began is None else began
        self._offset = math.inf  # seconds of earlier calls, as far as their rows are kept
        rows = read_metrics(path) if path.exists() else []
        path.parent.mkdir(parents=True, exist_ok=True)
        self._replace(rows)

    def append(self, kind: str, step: int, **values: Any) -> Row:
        """Write a row to the disk; ``time_s`` counts seconds of running time over all resumes.

        Returns:
            The row as it was written.

        Raises:
            InputError: the step lies behind the kind's last one, or the row of a training step exists.
        """
        last = self._last.get(kind)
        if last is not None and (step < last or (kind in _ONCE and step == last)):
            raise InputError(f"a {kind!r} row of step {step} cannot follow one of step {last}; steps only go forward")
        notes: list[str] = []
        row = {"kind": kind, "step": step, "time_s": round(self._offset + self._clock() - self._began, 3)}
        row |= {name: _plain(value, name, notes) for name, value in values.items()}
        if notes:
            row["notes"] = notes
        self._file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._last[kind] = step
        return row

    def rewind(self, step: int) -> int:
        """Drop the rows beyond ``step``, so that a run resumed there repeats none.

        The file is replaced in one move: it holds either the old rows or the kept ones.

        Returns:
            The number of rows dropped.
        """
        rows = read_metrics(self._path)
        kept = [row for row in rows if row["step"] <= step]
        self._file.close()
        self._replace(kept)
        return len(rows) - len(kept)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _replace(self, rows: list[Row]) -> None:
        """Make the file hold exactly ``rows`` and open it for appending."""
        text = "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
        if not self._path.exists() or self._path.read_text(encoding="utf-8", errors="replace") != text:
            write_whole(self._path, text)
        self._last = {row["kind"]: row["step"] for row in rows}
        self._offset = min(self._offset, max((row.get("time_s") or 0.0 for row in rows), default=0.0))
        self._file = self._path.open("a", encoding="utf-8")


def read_metrics(path: Path) -> list[Row]:
    """The rows of a metrics file, in order. A last line that a crash cut short is left out.

    Raises:
        InputError: the file cannot be read, or another line is not a metrics row; names the line.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror}") from error
    lines = text.split("\n")
    rows: list[Row] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            rows.append(_row(line))
        except ValueError as error:
            if number == len(lines):
                break
            raise InputError(f"{path}, line {number} is not a metrics row: {line[:80]!r}") from error
    return rows


def _row(line: str) -> Row:
    row = json.loads(line)
    if not isinstance(row, dict) or not isinstance(row.get("kind"), str) or not isinstance(row.get("step"), int):
        raise ValueError("kind or step is missing")
    return row


def _plain(value: Any, name: str, notes: list[str]) -> Any:
    """``value`` as JSON data; floats that are not finite become None and are named in ``notes``."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item, f"{name}.{key}", notes) for key, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [_plain(item, f"{name}[{index}]", notes) for index, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        notes.append(f"{name} was {value}")
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InputError(f"metric {name!r} is {value!r}; a number, text, list or mapping is needed")
