"""The environment TRL runs in, of its own under ``.venv-trl/``: it shares versions with the trainer, but no packages.

Run as ``python benchmarks/trl_environment.py``: what is already there at the pinned versions is left alone, so a second
run takes no time. Tests and benchmarks call TRL as a program; nothing of it is imported here.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / ".venv-trl"
PYTHON = HOME / "bin" / "python"
REQUIREMENTS = ("trl==1.16.0", "datasets==5.2.0", "accelerate", "peft", "safetensors", "torch", "transformers")
"""Those without a version take that of the repository's constraints, so that both sides compute with the same."""
MISSING = "TRL is not installed; run: python benchmarks/trl_environment.py"

_STAMP = HOME / ".installed.json"


def ready() -> bool:
    """Whether the environment is there and was built from these requirements and constraints."""
    return _STAMP.is_file() and _STAMP.read_text(encoding="utf-8") == _wanted()


def main() -> None:
    """Build the environment if it is missing or was built from others."""
    if ready():
        print(f"{HOME.name}: already there")
        return
    shutil.rmtree(HOME, ignore_errors=True)
    venv.create(HOME, with_pip=True)
    command = [str(PYTHON), "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt"), *REQUIREMENTS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=3600)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:4])} ... failed:\n{(done.stderr or done.stdout)[-2000:]}")
    _STAMP.write_text(_wanted(), encoding="utf-8")
    print(f"{HOME.name}: installed")


def _wanted() -> str:
    return json.dumps([*REQUIREMENTS, (ROOT / "constraints.txt").read_text(encoding="utf-8")])


if __name__ == "__main__":
    main()
