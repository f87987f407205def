"""The driver of ``make test-full``: what takes minutes, in bounded parts, with one dated record of what came out.

    python tests/full/run.py [--only slow demo support email time memory notes servers oldest] [--seeds 0 1 2]

The parts: tests marked ``slow``; whole demos and the examples, one per seed; the slow tests in files named ``*real_servers*``,
which need what ``tests.servers.install`` builds. Every part runs in a process group of its own that is ended when its time is
up. A demo or an example succeeds only with the gain it promises, in the time it promises. The record is written after each part, so that
an interrupted run leaves what it found. The exit code is 0 only if every part that ran succeeded.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DEMO = ["train", "mcp", "python -m mcp_server_time", "--model", "smollm2-135m", "--json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What a run has to come to, by the summary that it prints."""

    gain: float
    """Of success on held-out scenarios; its interval has to lie above 0."""
    scenarios: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One command with a bound on its time."""

    name: str
    command: list[str]
    seconds: float
    directory: Path
    """Where it runs; its output is kept in the results folder."""
    promise: Promise | None = None


DEMO_PROMISE = Promise(gain=0.30, scenarios=60, seconds=720)
PROMISES = {
    "support": Promise(gain=0.20, scenarios=60, seconds=720),
    "email": Promise(gain=0.20, scenarios=60, seconds=840),
    "time": Promise(gain=0.20, scenarios=60, seconds=840),
    "memory": Promise(gain=0.20, scenarios=60, seconds=1080),
    "notes": Promise(gain=0.20, scenarios=60, seconds=600),
}
"""Of the examples, and of training without data."""
WORLDS: dict[str, list[str]] = {
    "time": [],
    "memory": ["--generate", "200", "--max-time", "12m", "--group-size", "6", "--scenarios-per-step", "8"],
    "notes": ["--generate", "200", "--max-time", "6m"],
}
"""World of ``benchmarks.without_data`` → options of its training."""
PARTS = ["slow", "demo", *PROMISES, "servers", "oldest"]


def main() -> int:
    arguments = _parser().parse_args()
    started = datetime.now()
    results = ROOT / "test-results"
    stem = f"full-{started:%Y-%m-%dT%H%M}"
    folder = results / stem
    folder.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {
        "schema": 1,
        "started": started.isoformat(timespec="seconds"),
        "commit": _commit(),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "passed": False,
        "parts": [],
    }
    for part in _parts(arguments, folder):
        print(f"{part.name}: at most {part.seconds:.0f} s", file=sys.stderr, flush=True)
        record["parts"].append(_run(part, folder))
        record["passed"] = all(done["passed"] for done in record["parts"])
        (results / f"{stem}.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(record, indent=2))
    return 0 if record["passed"] else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Run the full tests.")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], help="of the runs")
    return parser


def _parts(arguments: argparse.Namespace, folder: Path) -> Iterator[Part]:
    pytest = [sys.executable, "-m", "pytest", "-n", "0"]
    if "slow" in arguments.only:
        command = [*pytest, "-m", "slow", "-k", "not real_servers", "--timeout", "1800"]
        yield Part(name="slow", command=command, seconds=7200, directory=ROOT)
    if "demo" in arguments.only:
        art = str(Path(sys.executable).parent / "art")
        for seed in arguments.seeds:
            directory = folder / f"demo-seed-{seed}"
            directory.mkdir(exist_ok=True)
            command = [art, *DEMO, "--seed", str(seed)]
            yield Part(
                name=f"demo seed {seed}", command=command, seconds=3600, directory=directory, promise=DEMO_PROMISE
            )
    for name, promise in PROMISES.items():
        for seed in arguments.seeds if name in arguments.only else ():
            module = ["benchmarks.without_data"] if name in WORLDS else ["tests.full.example"]
            place = ["--seed", str(seed), "--out", str(folder / f"{name}-seed-{seed}")]
            command = [sys.executable, "-m", *module, name, *place, *WORLDS.get(name, ())]
            yield Part(name=f"{name} seed {seed}", command=command, seconds=3600, directory=ROOT, promise=promise)
    if "servers" in arguments.only:
        command = [*pytest, "-m", "slow", "-k", "real_servers", "--timeout", "1800"]
        yield Part(name="servers", command=command, seconds=3600, directory=ROOT)
    if "oldest" in arguments.only:
        command = [sys.executable, "-m", "tests.oldest.run"]
        yield Part(name="oldest", command=command, seconds=3600, directory=ROOT)


def _run(part: Part, folder: Path) -> dict[str, Any]:
    """Run a part, keep its output as files, and say what came out."""
    stem = folder / part.name.replace(" ", "-")
    report = stem.with_suffix(".xml")
    command = [*part.command, f"--junitxml={report}"] if "pytest" in part.command else part.command
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    begun = time.monotonic()
    with stem.with_suffix(".out").open("wb") as out, stem.with_suffix(".err").open("wb") as err:
        process = subprocess.Popen(
            command,
            cwd=part.directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            code: int | None = process.wait(part.seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end_group(process)
    done = {
        "name": part.name,
        "command": [word.replace(f"{ROOT}{os.sep}", "") for word in command],
        "seconds": round(time.monotonic() - begun, 1),
        "exit_code": code,
        "timed_out": code is None,
        "outcome": counts(report) if "pytest" in command else _last_json(stem.with_suffix(".out")),
    }
    shortfall = _shortfall(done, part.promise) if part.promise is not None and code == 0 else None
    return {**done, "shortfall": shortfall, "passed": code == 0 and shortfall is None}


def _shortfall(done: dict[str, Any], promise: Promise) -> str | None:
    """What a finished run lacks; None if it kept its promise."""
    gain = (done["outcome"] or {}).get("gain") or {"difference": 0.0, "ci95": [0.0, 0.0], "n": 0}
    if gain["n"] < promise.scenarios:
        return f"{gain['n']} held-out scenarios, at least {promise.scenarios} are needed"
    if gain["difference"] < promise.gain:
        return f"success rose by {100 * gain['difference']:.0f} points, at least {100 * promise.gain:.0f} are promised"
    if gain["ci95"][0] <= 0:
        return f"the 95 % interval of the gain begins at {100 * gain['ci95'][0]:.0f} points, not above 0"
    if done["seconds"] > promise.seconds:
        return f"it took {done['seconds']:.0f} s, at most {promise.seconds:.0f} are promised"
    return None


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End whatever the part left running, its own children included."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        time.sleep(1)
    process.wait()


def counts(report: Path) -> dict[str, int] | None:
    """Tests run, failed and skipped, from pytest's own report; None if it wrote none."""
    if not report.is_file():
        return None
    suites = ET.parse(report).getroot().iter("testsuite")
    totals = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for suite in suites:
        for key in totals:
            totals[key] += int(suite.get(key, 0))
    return totals


def _last_json(output: Path) -> Any:
    """The JSON object that closes a command's output; None if there is none."""
    text = output.read_text(encoding="utf-8", errors="replace").strip()
    for begin in (text.rfind("\n{") + 1, 0):
        try:
            return json.loads(text[begin:])
        except ValueError:
            continue
    return None


def _commit() -> str | None:
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


if __name__ == "__main__":
    sys.exit(main())
