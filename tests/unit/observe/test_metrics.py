import json
import os
import signal
import subprocess
import sys

import pytest

from art_core.errors import InputError
from art_core.observe.metrics import MetricsLog, read_metrics


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.jsonl"


def test_a_row_is_on_disk_when_append_returns(path):
    log = MetricsLog(path, clock=lambda: 5.0)
    log.append("train", 1, loss=0.5)
    assert path.read_text() == '{"kind": "train", "step": 1, "time_s": 0.0, "loss": 0.5}\n'


@pytest.mark.parametrize(("value", "word"), [(float("nan"), "nan"), (float("inf"), "inf"), (float("-inf"), "-inf")])
def test_a_number_that_is_not_finite_becomes_null_with_a_note(path, value, word):
    row = MetricsLog(path).append("train", 1, loss=value, parts={"a": [1, value]})
    assert (row["loss"], row["parts"]) == (None, {"a": [1, None]})
    assert row["notes"] == [f"loss was {word}", f"parts.a[1] was {word}"]


def test_a_train_row_is_written_once_per_step(path):
    log = MetricsLog(path)
    log.append("train", 3)
    with pytest.raises(InputError, match="a 'train' row of step 3 cannot follow one of step 3"):
        log.append("train", 3)


def test_steps_go_forward_within_a_kind_only(path):
    log = MetricsLog(path)
    log.append("train", 3)
    log.append("eval", 2)
    log.append("eval", 2)
    with pytest.raises(InputError, match="step 1 cannot follow"):
        log.append("eval", 1)


def test_rewind_drops_what_lies_beyond_the_step_and_goes_on_from_there(path):
    log = MetricsLog(path)
    for step in (1, 2, 3):
        log.append("train", step)
    assert log.rewind(1) == 2
    log.append("train", 2, again=True)
    assert [(row["step"], row.get("again")) for row in read_metrics(path)] == [(1, None), (2, True)]


def test_a_reopened_file_continues_steps_and_running_time(path):
    times = iter([0.0, 7.5, 100.0, 101.0])
    clock = lambda: next(times)  # noqa: E731
    MetricsLog(path, clock=clock).append("train", 1)
    log = MetricsLog(path, clock=clock)
    assert log.append("train", 2)["time_s"] == 8.5
    with pytest.raises(InputError):
        log.append("train", 1)


@pytest.mark.parametrize("tail", ['{"kind": "train", "st', '{"kind": "tr\xff', '{"kind":"train"}'])
def test_a_line_cut_by_a_crash_is_left_out_and_cleaned_up(path, tail):
    MetricsLog(path).append("train", 1)
    with path.open("a") as file:
        file.write(tail)
    assert [row["step"] for row in read_metrics(path)] == [1]
    MetricsLog(path).append("train", 2)
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [1, 2]


def test_a_damaged_line_in_the_middle_is_named(path):
    path.write_text('{"kind": "train", "step": 1}\nnonsense\n{"kind": "train", "step": 2}\n')
    with pytest.raises(InputError, match="line 2 is not a metrics row: 'nonsense'"):
        read_metrics(path)


def test_a_missing_file_is_named(path):
    with pytest.raises(InputError, match=r"cannot read '.*metrics.jsonl': No such file"):
        read_metrics(path)


def test_a_value_that_is_no_data_is_refused(path):
    with pytest.raises(InputError, match="metric 'thing' is <object"):
        MetricsLog(path).append("train", 1, thing=object())


def test_a_killed_writer_leaves_whole_rows(path):
    code = (
        "import sys, os, signal\nfrom pathlib import Path\nfrom art_core.observe.metrics import MetricsLog\n"
        "log = MetricsLog(Path(sys.argv[1]))\nfor step in range(5): log.append('train', step)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False, env=os.environ, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert [row["step"] for row in read_metrics(path)] == [0, 1, 2, 3, 4]


def test_time_counts_from_where_the_run_began_also_after_a_rewind(tmp_path):
    now = [10.0]
    with MetricsLog(tmp_path / "m.jsonl", began=4.0, clock=lambda: now[0]) as log:
        assert log.append("event", 0)["time_s"] == 6.0
        now[0] = 11.0
        log.rewind(0)
        assert log.append("event", 0)["time_s"] == 7.0
    now[0] = 20.0
    with MetricsLog(tmp_path / "m.jsonl", began=19.0, clock=lambda: now[0]) as log:
        assert log.append("event", 0)["time_s"] == 8.0  # seven of the first call
