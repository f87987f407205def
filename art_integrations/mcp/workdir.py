"""A rollout's own directory: made from a fixture, gone afterwards."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from art_core.errors import InputError

__all__ = ["check_fixture", "fresh_workdir"]


def check_fixture(fixture: Path | None) -> None:
    """Raises InputError when the fixture is not a directory."""
    if fixture is not None and not fixture.is_dir():
        raise InputError(f"fixture {str(fixture)!r} is not a directory")


@asynccontextmanager
async def fresh_workdir(fixture: Path | None) -> AsyncIterator[Path]:
    """A new directory holding a copy of the fixture (links kept as links); removed at the end, read-only files too."""
    root = Path(tempfile.mkdtemp(prefix="art-rollout-"))
    workdir = root / "work"
    try:
        if fixture is None:
            workdir.mkdir()
        else:
            await asyncio.to_thread(shutil.copytree, fixture, workdir, symlinks=True)
        yield workdir
    finally:
        await asyncio.to_thread(_remove, root)


def _remove(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)
    shutil.rmtree(root, ignore_errors=True)
