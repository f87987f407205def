"""The points of the scaling benchmark are what they say, and the script runs from end to end."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from art_core.training.trainer import GrpoTrainer
from benchmarks.flops import Forward
from benchmarks.scaling import Point
from benchmarks.trl_environment import ROOT
from tests.unit.training.tiny import lora

POINT = Point(prompt=20, siblings=2, turns=2, reply=3, tool=4)


def test_only_the_replies_of_a_trajectory_are_trained():
    first, second = POINT.rows()
    assert first.mask.tolist() == [False] * 20 + [True] * 3 + [False] * 4 + [True] * 3
    assert first.token_ids[:20].tolist() == second.token_ids[:20].tolist()
    assert first.token_ids[20:].tolist() != second.token_ids[20:].tolist()


def test_the_arithmetic_of_a_point():
    # a row is 30 tokens, the last of which predicts nothing; its 9 others after the prompt attend to 21 ... 29
    pairs = sum(range(1, 21)) + 2 * sum(range(21, 30))
    assert POINT.work == Forward(tokens=20 + 2 * 9, predictions=2 * 6 - 1, pairs=pairs)
    assert POINT.turn_tokens == 2 * (22 + 29)


def test_the_trainer_computes_as_many_tokens_as_are_counted():
    report = GrpoTrainer(lora()).step(POINT.rows(), [1.0, -1.0])
    assert (report.forward_tokens, report.row_tokens, report.tokens) == (20 + 2 * 9, 2 * 29, 12)


@pytest.mark.slow
def test_the_script_measures_every_point_in_a_process_of_its_own():
    command = [sys.executable, "benchmarks/scaling.py", "--quick", "--repeat", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    points = json.loads(done.stdout)["points"]
    assert list(points) == ["base", "prompt 96", "siblings 8", "turns 4"]
    assert points["turns 4"]["trained_tokens"] == 4 * points["base"]["trained_tokens"]
    assert all(point["peak_rss_gb"] >= point["peak_rss_gb_loaded"] > 0 for point in points.values())
