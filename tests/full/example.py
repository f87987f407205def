"""An example as its README has it, with the stand-in in the place of the hosted model: one run, its summary as JSON.

python -m tests.full.example support --seed 0 --out DIRECTORY
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.servers.roles import Roles, roles_server

from .mail_judge import mail_judge

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ART = str(Path(sys.executable).parent / "art")
COLLECT = ["--scenarios", "questions.jsonl", "--reward", "checks:score"]
STARTING_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """What differs between the examples."""

    folder: str
    agent: list[str]
    """Its kind and where it is, for ``art collect``."""
    collected: int
    """How many questions are collected."""
    training: list[str]
    """What follows ``art train``: a file of settings, or more."""
    judged: bool = False
    """Whether a program plays a judge that the training asks."""


KNOWN = {
    "support": Example(
        folder="langgraph_support",
        agent=["langgraph", "support_bot.graph:graph"],
        collected=120,
        training=["support.toml"],
    ),
    "email": Example(
        folder="email_agent", agent=["python", "mail_agent.agent:run"], collected=160, training=["email.toml"]
    ),
    "email-judged": Example(
        folder="email_agent",
        agent=["python", "mail_agent.agent:run"],
        collected=160,
        training=[
            *["python", "mail_agent.agent:run", "--scenarios", "questions.jsonl", "--model", "smollm2-135m"],
            *["--max-time", "10m", "--scenarios-per-step", "8", "--group-size", "6", "--max-tokens", "96"],
            *["--reward", "ruler", "--rubric", "@rubric.txt", "--check", "checks:score", "--combine", "beside"],
        ],
        judged=True,
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Train an example once.")
    parser.add_argument("example", choices=KNOWN)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True, help="a directory for the collected rollouts and the run")
    arguments = parser.parse_args()
    example, out = KNOWN[arguments.example], arguments.out.resolve()
    here = EXAMPLES / example.folder
    with stand_in(here) as url, judge(example) as asked:
        environment = {**os.environ, "OPENAI_BASE_URL": url}
        collect = [ART, "collect", *example.agent, *COLLECT, "--limit", str(example.collected)]
        collect += ["--out", str(out / "collected"), "--quiet"]
        subprocess.run(collect, cwd=here, env=environment, stdout=sys.stderr, check=True)
        train = [ART, "train", *example.training, *asked, "--warm-start", str(out / "collected"), "--out", str(out)]
        words = [*train, "--seed", str(arguments.seed), "--json"]
        return subprocess.run(words, cwd=here, env=environment, check=False).returncode


@contextlib.contextmanager
def stand_in(here: Path) -> Iterator[str]:
    """The URL of the stand-in for the example in this directory; it is ended with the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(EXAMPLES / "stand_in.py"), "--port", str(port)], cwd=here)
    try:
        deadline = time.monotonic() + STARTING_S
        while not _answers(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the stand-in did not start (exit code {process.poll()})")
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def judge(example: Example) -> Iterator[list[str]]:
    """The words that name the judge, which is there while the block runs."""
    if not example.judged:
        yield []
        return
    with roles_server(Roles(grades=mail_judge(EXAMPLES / example.folder / "questions.jsonl"))) as server:
        yield ["--judge", f"m@{server.url}"]


def _answers(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    sys.exit(main())
