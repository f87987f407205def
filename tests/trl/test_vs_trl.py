"""The benchmark against TRL runs from end to end: both sides compute the task they were given."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.trl_environment import MISSING, ROOT, ready
from tests.tiny import save_tiny

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not ready(), reason=MISSING)]


def test_both_sides_make_the_same_steps(tmp_path: Path) -> None:
    save_tiny(tmp_path / "model")
    options = ["--groups", "2", "--group-size", "4", "--prompt", "30", "--new", "8", "--steps", "2"]
    command = [sys.executable, "benchmarks/vs_trl.py", "--model", str(tmp_path / "model"), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["tokens_computed"]["trl"] == {"sample": 2 * 4 * (30 + 7), "train": 2 * 4 * (30 + 8)}
    # this model is so sure that siblings draw the same tokens, and are one row
    assert figures["tokens_computed"]["ours"]["sample"] == 2 * (30 + 7)
    assert {name: figures[name] > 0 for name in ("step_ratio", "train_ratio", "sample_ratio", "rss_ratio")} == {
        "step_ratio": True,
        "train_ratio": True,
        "sample_ratio": True,
        "rss_ratio": True,
    }
