"""Training without data, on real servers and on a task in words: scenarios, dry run, judge, training, and what an independent check says of
the held-out scenarios.

    python -m benchmarks.without_data memory --seed 0 --out DIRECTORY [options of art train]

Programs stand in for the language models, behind real HTTP (``benchmarks.worlds``). The servers are those of ``make servers``. What the run
does is shown on standard error; standard output is its summary as JSON.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from art_core.cli.main import main as art
from tests.servers.install import ROOT as SERVERS
from tests.servers.roles import roles_server

from .worlds import WORLDS

__all__ = ["main"]


def main() -> int:
    """Run one world once; returns the exit code of ``art train``."""
    parser = argparse.ArgumentParser(description="Training without data.")
    parser.add_argument("world", choices=WORLDS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, help="a directory for the scenarios and the run")
    parser.add_argument("--servers", type=Path, default=SERVERS, help="where the servers are installed")
    arguments, more = parser.parse_known_args()
    world, out = WORLDS[arguments.world], arguments.out.resolve()
    words = [*world.verb(arguments.servers.resolve()), *world.options]
    if world.files:
        words += ["--fixture", str(_fixture(out / "fixture", world.files))]
    if world.questions:
        words += ["--check", "benchmarks.worlds:check", "--combine", "beside", "--imitate"]
    out.mkdir(parents=True, exist_ok=True)
    os.chdir(out)
    with roles_server(world.roles()) as server:
        words += ["--judge", f"m@{server.url}", "--seed", str(arguments.seed), "--name", "run", "--json"]
        return art(["train", *words, *more])


def _fixture(path: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        place = path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    return path


if __name__ == "__main__":
    sys.exit(main())
