"""T21: a run that was killed, at any moment and more than once, ends with the bytes of one that was not."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from art_core.observe.metrics import read_metrics
from art_core.trajectory import store
from tests.tiny import save_tiny

from .run_to_kill import PLACES

ROOT = Path(__file__).parents[2]
CLOCK = ("time_s", "seconds", "tokens_per_s")
TIMES = ("seconds", "started_s", "ended_s")


class Nursery:
    """Starts processes that train, and kills them."""

    def __init__(self, model):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.run_to_kill", str(model)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        )
        assert self._process.stdout.readline() == "ready\n"

    def life(self, out, steps, *, seconds=None, die=None):
        """One process's attempt at the run; how it ended: 0, or minus the signal that ended it."""
        order = {"out": str(out), "steps": steps, "die": die, "seconds": seconds}
        print(json.dumps(order), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


@pytest.fixture(scope="module")
def nursery(tmp_path_factory):
    nursery = Nursery(save_tiny(tmp_path_factory.mktemp("model"), "qwen3"))
    yield nursery
    nursery.close()


def without(record, names):
    if isinstance(record, list):
        return [without(item, names) for item in record]
    if isinstance(record, dict):
        return {key: without(value, names) for key, value in record.items() if key not in names}
    return record


def rows(run):
    kept = [row for row in read_metrics(run / "metrics.jsonl") if row["kind"] != "event"]
    return [{key: value for key, value in row.items() if not key.startswith(CLOCK)} for row in kept]


def trajectories(run):
    files = sorted((run / "trajectories").glob("*.jsonl"))
    return {path.name: [without(store.to_record(t), TIMES) for t in store.read(path)] for path in files}


def checkpoints(run):
    return {
        str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((run / "checkpoints").glob("*/*.safetensors"))
    }


def figures(run):
    summary = json.loads((run / "summary.json").read_text())
    return {name: summary[name] for name in ("steps", "updates", "before", "after", "gain", "best_step", "ledger")}


def left_by(run):
    """Everything a run leaves that no clock decides."""
    return {"rows": rows(run), "trajectories": trajectories(run), "weights": checkpoints(run), "figures": figures(run)}


@pytest.fixture(scope="module")
def whole(nursery, tmp_path_factory):
    """What an uninterrupted run of so many steps leaves, and how many seconds it took."""
    known = {}

    def run(steps):
        if steps not in known:
            out, began = tmp_path_factory.mktemp("whole"), time.monotonic()
            assert nursery.life(out, steps) == 0
            known[steps] = left_by(out / "run"), time.monotonic() - began
        return known[steps]

    return run


def test_the_run_that_is_killed_here_changes_its_weights_in_every_step(whole):
    left, _ = whole(3)
    train = [row for row in left["rows"] if row["kind"] == "train"]
    assert [row["step"] for row in train] == [1, 2, 3]
    assert all(row["updated"] for row in train)
    assert sorted(left["weights"])[-1] == "checkpoints/step-000003/optimizer.safetensors"


def test_t25_the_same_seed_twice_leaves_the_same_bytes(nursery, whole, tmp_path):
    assert nursery.life(tmp_path, 3) == 0
    assert left_by(tmp_path / "run") == whole(3)[0]


@pytest.mark.parametrize(
    "moment", [0.4, 0.75, ("before a checkpoint is on the disk", 12)], ids=["early", "late", "checkpoint"]
)
def test_t21_a_killed_run_goes_on_as_if_it_had_not_been(nursery, whole, tmp_path, moment):
    expected, seconds = whole(3)
    if isinstance(moment, float):
        nursery.life(tmp_path, 3, seconds=moment * seconds)
    else:
        assert nursery.life(tmp_path, 3, die=moment) == -signal.SIGKILL
    assert nursery.life(tmp_path, 3) == 0
    assert left_by(tmp_path / "run") == expected


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_t21_killed_at_twenty_random_moments(nursery, whole, tmp_path):
    expected, seconds = whole(4)
    draw = random.Random(21)
    killed = 0
    for number in range(20):
        out = tmp_path / str(number)
        out.mkdir()
        moment = (number + draw.random()) / 20 * 0.95 * seconds
        ended = nursery.life(out, 4, seconds=moment)
        assert ended in (-signal.SIGKILL, 0)
        if ended == 0:  # this machine has become faster since the whole run: a life takes less than this
            seconds = moment
        else:
            killed += 1
        if number % 3 == 0:
            nursery.life(out, 4, seconds=draw.random() * seconds)
        assert nursery.life(out, 4) == 0
        assert left_by(out / "run") == expected, f"killed after {moment:.3f} s"
    assert killed >= 18


NEVER = {("in the middle of removing an old checkpoint", 4)}
"""What does not happen so often in a run of four steps: it removes one checkpoint, when the fourth is made."""
CALLS = [(place, count) for place in PLACES for count in (1, 4) if (place, count) not in NEVER]


@pytest.mark.slow
@pytest.mark.parametrize(("place", "count"), CALLS, ids=str)
def test_t21_killed_in_the_middle_of_writing(nursery, whole, tmp_path, place, count):
    expected, _ = whole(4)
    assert nursery.life(tmp_path, 4, die=(place, count)) == -signal.SIGKILL
    assert nursery.life(tmp_path, 4, die=(place, count)) in (-signal.SIGKILL, 0)
    assert nursery.life(tmp_path, 4) == 0
    assert left_by(tmp_path / "run") == expected
