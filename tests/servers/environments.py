"""How to start each real server of the tests on data of its own, and values its parameters can really take."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from art_core.messages import ToolSpec

from .install import ROOT

__all__ = ["SERVERS", "Setup", "call_error", "connect", "list_tools", "prepare"]


_QUIET = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - servers write to it as long as the tests run


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A server's command, the environment variables it needs and hints for its parameters."""

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    hints: Mapping[str, Sequence[Any]] = field(default_factory=dict)


def prepare(name: str, home: Path) -> Setup:
    """The setup of server ``name``, its data made in the empty folder ``home``."""
    return SERVERS[name](home)


def _python(name: str, *arguments: str) -> tuple[str, ...]:
    return (str(ROOT / name / "bin" / f"mcp-server-{name}"), *arguments)


def _node(name: str, *arguments: str) -> tuple[str, ...]:
    return (str(ROOT / "node" / "node_modules" / ".bin" / f"mcp-server-{name}"), *arguments)


def _git(home: Path) -> Setup:
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-C", str(home), *arguments], check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    git("config", "user.name", "Test")
    git("config", "user.email", "test@example.com")
    for number in range(4):
        (home / f"note{number}.txt").write_text(f"note {number}\n", encoding="utf-8")
        git("add", ".")
        git("commit", "-q", "-m", f"Add note {number}")
    for branch in ("feature", "fix"):
        git("branch", branch)
    (home / "note0.txt").write_text("changed\n", encoding="utf-8")
    refs = ["main", "feature", "fix", "HEAD~1"]
    hints = {
        "repo_path": [str(home)],
        "revision": refs,
        "target": refs,
        "files": ["note0.txt", "note1.txt"],
        "git_checkout.branch_name": ["main", "feature", "fix"],
        "base_branch": ["main", "feature"],
        "contains": ["HEAD"],
        "not_contains": ["HEAD"],
    }
    return Setup(command=_python("git", "--repository", str(home)), hints=hints)


def _sqlite(home: Path) -> Setup:
    return Setup(command=_python("sqlite", "--db-path", str(home / "data.db")))


def _filesystem(home: Path) -> Setup:
    for folder in ("letters", "plans"):
        (home / folder).mkdir()
        for name in ("spring.txt", "summer.md"):
            (home / folder / name).write_text(f"{folder} of {name}\n", encoding="utf-8")
    folders = [str(home / name) for name in ("letters", "plans")]
    files = [str(path) for path in sorted(home.rglob("*.*"))]
    hints: dict[str, Sequence[Any]] = {"path": files, "paths": files, "source": files}
    for tool in ("list_directory", "list_directory_with_sizes", "directory_tree", "search_files", "create_directory"):
        hints[f"{tool}.path"] = folders
    return Setup(
        command=_node("filesystem", str(home)),
        hints={**hints, "destination": [str(home / n) for n in ("a.txt", "b.md")]},
    )


SERVERS: Mapping[str, Callable[[Path], Setup]] = {
    "time": lambda home: Setup(command=_python("time", "--local-timezone", "UTC")),
    "git": _git,
    "sqlite": _sqlite,
    "calculator": lambda home: Setup(command=_python("calculator")),
    "everything": lambda home: Setup(command=_node("everything")),
    "filesystem": _filesystem,
    "memory": lambda home: Setup(command=_node("memory"), env={"MEMORY_FILE_PATH": str(home / "memory.json")}),
    "sequential-thinking": lambda home: Setup(command=_node("sequential-thinking")),
}


@asynccontextmanager
async def connect(setup: Setup) -> AsyncIterator[ClientSession]:
    """An initialised session with a server process of its own."""
    parameters = StdioServerParameters(
        command=setup.command[0], args=list(setup.command[1:]), env=dict(setup.env) or None
    )
    async with stdio_client(parameters, errlog=_QUIET) as streams, ClientSession(*streams) as session:
        await session.initialize()
        yield session


async def list_tools(session: ClientSession) -> list[ToolSpec]:
    """What the server lists."""
    listed = (await session.list_tools()).tools
    return [
        ToolSpec(
            name=tool.name, description=tool.description or "", parameters=tool.model_dump(by_alias=True)["inputSchema"]
        )
        for tool in listed
    ]


async def call_error(session: ClientSession, name: str, arguments: Mapping[str, Any]) -> str | None:
    """Call a tool; its error in words, or None. Answers that only say they are errors count as errors too."""
    result = await session.call_tool(name, dict(arguments))
    text = " ".join(getattr(block, "text", "") for block in result.content)
    failed = result.model_dump(by_alias=True).get("isError") or text.startswith(("Error", "Database error"))
    return text or "error" if failed else None
