"""Whole directories or none: written beside their place, listed in a manifest, moved in one rename.

A directory is *whole* when all files its ``manifest.json`` lists are in it, with the sizes and SHA-256 digests listed.
The manifest is written last and everything reaches the disk before the rename, so a process killed at any moment
leaves either the finished directory or a ``.NAME.partial`` that nobody reads and the next save removes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from art_core.errors import InputError

__all__ = ["MANIFEST", "Found", "latest", "verify", "write_directory"]

MANIFEST = "manifest.json"
_SCHEMA = 1
_STEP = re.compile(r"step-(\d{6,})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What ``latest`` found under a root."""

    path: Path | None
    """The newest whole checkpoint."""
    step: int | None
    skipped: tuple[tuple[Path, str], ...]
    """Newer directories that are not whole, newest first, each with the reason."""


def write_directory(directory: Path, fill: Callable[[Path], None]) -> None:
    """Make ``directory`` appear whole, with the files that ``fill`` writes into the directory it is given.

    A damaged directory in the way is kept as ``NAME.damaged``.

    Raises:
        InputError: a whole directory of that name is already there; it is left as it is.
    """
    partial = directory.with_name(f".{directory.name}.partial")
    if partial.exists():
        shutil.rmtree(partial)
    partial.mkdir(parents=True)
    try:
        fill(partial)
        inside = sorted(partial.rglob("*"))
        files = {path.relative_to(partial).as_posix(): _entry(path) for path in inside if path.is_file()}
        text = json.dumps({"schema": _SCHEMA, "files": files}, indent=2)
        (partial / MANIFEST).write_text(text + "\n", encoding="utf-8")
        for path in (*inside, partial / MANIFEST, partial):
            _flush(path)
        if directory.exists():
            _set_aside(directory)
        partial.rename(directory)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    _flush(directory.parent)


def verify(directory: Path) -> None:
    """Check a directory against its manifest.

    Raises:
        InputError: it is not whole; the message says in what way.
    """
    if reason := _flaw(directory):
        raise InputError(f"{str(directory)!r} is not a whole checkpoint: {reason}")


def is_whole(directory: Path) -> bool:
    """Whether ``verify`` would pass."""
    return _flaw(directory) is None


def latest(root: Path) -> Found:
    """The newest whole ``step-NNNNNN`` under ``root``; what is half-written or damaged is skipped, and told."""
    steps: list[tuple[int, Path]] = []
    if root.is_dir():
        steps = [(int(match[1]), path) for path in root.iterdir() if (match := _STEP.fullmatch(path.name))]
    skipped: list[tuple[Path, str]] = []
    for step, path in sorted(steps, reverse=True):
        reason = _flaw(path)
        if reason is None:
            return Found(path=path, step=step, skipped=tuple(skipped))
        skipped.append((path, reason))
    return Found(path=None, step=None, skipped=tuple(skipped))


def _flaw(directory: Path) -> str | None:
    """Why a directory is not whole; None if it is."""
    try:
        manifest = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
        listed = {str(name): (int(entry["size"]), str(entry["sha256"])) for name, entry in manifest["files"].items()}
        schema = manifest["schema"]
    except FileNotFoundError:
        return f"it has no {MANIFEST}"
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return f"its {MANIFEST} cannot be read"
    if schema != _SCHEMA:
        return f"its {MANIFEST} has schema {schema!r}; this version reads {_SCHEMA}"
    for name, (size, digest) in listed.items():
        path = directory / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size} bytes instead of {size}"
        if _digest(path) != digest:
            return f"{name} has other content than was written"
    return None


def _set_aside(directory: Path) -> None:
    if _flaw(directory) is None:
        raise InputError(f"{str(directory)!r} is already there and whole; a checkpoint is never overwritten")
    aside = directory.with_name(f"{directory.name}.damaged")
    number = 1
    while aside.exists():
        number += 1
        aside = directory.with_name(f"{directory.name}.damaged-{number}")
    directory.rename(aside)


def _entry(path: Path) -> dict[str, int | str]:
    return {"size": path.stat().st_size, "sha256": _digest(path)}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path: Path) -> None:
    """Wait until a file's content, or a directory's entries, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
