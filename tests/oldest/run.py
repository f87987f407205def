"""Runs the tests of LangGraph graphs with the oldest packages that our ranges allow, in ``.venv-oldest/``.

    python -m tests.oldest.run [pytest arguments]

Every package that ``pyproject.toml`` gives a lower bound, for the core or for the extra ``langgraph``, has exactly that version there; what
these need, and what only the tests need, is the newest that goes with them. Prints one JSON object: the versions, and what
came out. The exit code is that of pytest.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.environments import Environment
from tests.full.run import counts
from tests.oldest.bounds import lowest

ROOT = Path(__file__).resolve().parents[2]
TESTED = ("tests/unit/langgraph", "tests/foreign")
_NEEDED = (
    *("deepagents", "hypothesis", "langchain", "langchain-anthropic", "langchain-google-genai", "langchain-ollama"),
    *("langgraph-supervisor", "langgraph-swarm"),
    *("pytest", "pytest-asyncio", "pytest-timeout", "pytest-xdist"),
)
"""By the tests only."""
_LIST = "import importlib.metadata as m, json; print(json.dumps({d.name: d.version for d in m.distributions()}))"


def main() -> int:
    constraints = lowest((ROOT / "pyproject.toml").read_text(encoding="utf-8"), extras=("langgraph",))
    environment = Environment(
        home=ROOT / ".venv-oldest",
        requirements=("-e", f"{ROOT}[langgraph]", *_NEEDED),
        constraints="".join(f"{line}\n" for line in constraints),
    )
    print(f"{environment.home.name}: {environment.build()}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [environment.python, "-m", "pytest", "-n", "2", f"--junitxml={report}", *(sys.argv[1:] or TESTED)]
        code = subprocess.run(command, cwd=ROOT, stdout=sys.stderr, check=False).returncode
        told = subprocess.run([environment.python, "-c", _LIST], capture_output=True, text=True, check=True).stdout
        versions = {name: version for name, version in sorted(json.loads(told).items()) if name != "art-integrations"}
        print(json.dumps({"lowest": constraints, "tests": counts(report), "versions": versions}, indent=2))
    return code


if __name__ == "__main__":
    sys.exit(main())
