"""The environment TRL runs in, of its own under ``.venv-trl/``: it shares versions with the trainer, but no packages.

Run as ``python -m benchmarks.trl_environment``: what is already there at the pinned versions is left alone, so a second
run takes no time. Tests and benchmarks call TRL as a program; nothing of it is imported here.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.environments import Environment

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = ("trl==1.16.0", "datasets==5.2.0", "accelerate", "peft", "safetensors", "torch", "transformers")
"""Those without a version take that of the repository's constraints, so that both sides compute with the same."""
MISSING = "TRL is not installed; run: python -m benchmarks.trl_environment"

_ENVIRONMENT = Environment(
    home=ROOT / ".venv-trl",
    requirements=REQUIREMENTS,
    constraints=(ROOT / "constraints.txt").read_text(encoding="utf-8"),
)
PYTHON = _ENVIRONMENT.python


def ready() -> bool:
    """Whether the environment is there and was built from these requirements and constraints."""
    return _ENVIRONMENT.ready


def main() -> None:
    """Build the environment if it is missing or was built from others."""
    print(f"{_ENVIRONMENT.home.name}: {_ENVIRONMENT.build()}")


if __name__ == "__main__":
    main()
