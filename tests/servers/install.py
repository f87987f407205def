"""Builds the real MCP servers of the tests, each in an environment of its own under ``.servers/``.

Run as ``python -m tests.servers.install [name ...]``: what is already there at the pinned version is left alone, so a
second run takes no time. A server never shares an environment with the trainer: only the wire protocol must match.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.environments import Environment

ROOT = Path(__file__).resolve().parents[2] / ".servers"

PYTHON_SERVERS: dict[str, tuple[str, ...]] = {
    "time": ("mcp>=2.3,<3", "mcp-server-time==2026.10.19", "tzdata"),
    "git": ("mcp>=2.3,<3", "mcp-server-git==2026.10.19"),
    "sqlite": ("mcp<2", "mcp-server-sqlite==2025.4.25"),
    "calculator": ("mcp<2", "mcp-server-calculator==0.2.1"),
}
NODE_VERSION = "2026.8.31"
NODE_SERVERS = tuple(
    f"@modelcontextprotocol/server-{name}@{NODE_VERSION}"
    for name in ("everything", "filesystem", "memory", "sequential-thinking")
)
NAMES = (*PYTHON_SERVERS, "node")


def install(name: str) -> str:
    """Build one environment if it is missing or was built from other requirements; says what was done."""
    home = ROOT / name
    if name != "node":
        return Environment(home=home, requirements=PYTHON_SERVERS[name]).build(seconds=900)
    wanted = json.dumps(list(NODE_SERVERS))
    stamp = home / ".installed.json"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return "already there"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    _run("npm", "install", "--no-audit", "--no-fund", "--prefix", str(home), *NODE_SERVERS)
    stamp.write_text(wanted, encoding="utf-8")
    return "installed"


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:4])} ... failed:\n{(done.stderr or done.stdout)[-2000:]}")


def main() -> None:
    """Install the servers named on the command line, or all of them."""
    parser = argparse.ArgumentParser(description="Build the MCP servers the tests run against, under .servers/.")
    parser.add_argument("names", nargs="*", choices=[[], *NAMES], default=[], help="all if none is named")
    for name in parser.parse_args().names or NAMES:
        if name == "node" and shutil.which("npm") is None:
            print("node: skipped, npm is not on PATH", file=sys.stderr)
            continue
        print(f"{name}: {install(name)}")


if __name__ == "__main__":
    main()
