"""Environments of their own, for what must not share packages with the trainer: built once, and anew when they are to hold something else.

Tests and benchmarks run what is in them as programs; nothing of it is imported here.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import venv
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Environment"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """One virtual environment."""

    home: Path
    requirements: tuple[str, ...]
    """As pip takes them."""
    constraints: str = ""
    """The text of a constraints file."""

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.home / "bin" / "python"

    @property
    def ready(self) -> bool:
        """Whether it is there and was built from these requirements and constraints."""
        return self._stamp.is_file() and self._stamp.read_text(encoding="utf-8") == self._wanted

    def build(self, *, seconds: float = 3600) -> str:
        """Build it unless it is ready; says what was done.

        Raises:
            SystemExit: pip failed; the message is the end of its own.
        """
        if self.ready:
            return "already there"
        shutil.rmtree(self.home, ignore_errors=True)
        venv.create(self.home, with_pip=True)
        constraints = self.home / "constraints.txt"
        constraints.write_text(self.constraints, encoding="utf-8")
        command = [str(self.python), "-m", "pip", "install", "-q", "-c", str(constraints), *self.requirements]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
        if done.returncode:
            raise SystemExit(f"{' '.join(command[:4])} ... failed:\n{(done.stderr or done.stdout)[-2000:]}")
        self._stamp.write_text(self._wanted, encoding="utf-8")
        return "installed"

    @property
    def _stamp(self) -> Path:
        return self.home / ".installed.json"

    @property
    def _wanted(self) -> str:
        return json.dumps([*self.requirements, self.constraints])
