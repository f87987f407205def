"""T21: directories appear whole or not at all, and what is damaged is skipped with a reason."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from art_core.errors import InputError
from art_core.training.manifest import latest, verify, write_directory


def write(root, step, content="x"):
    path = root / f"step-{step:06d}"
    write_directory(path, lambda place: (place / "data").write_text(content))
    return path


def test_a_whole_directory_verifies(tmp_path):
    path = write(tmp_path, 1)
    verify(path)
    assert sorted(p.name for p in path.iterdir()) == ["data", "manifest.json"]
    assert [p.name for p in tmp_path.iterdir()] == ["step-000001"]


def test_latest_is_the_highest_number(tmp_path):
    for step in (2, 10, 1):
        write(tmp_path, step)
    found = latest(tmp_path)
    assert (found.step, found.path, found.skipped) == (10, tmp_path / "step-000010", ())


@pytest.mark.parametrize("root", ["empty", "absent"])
def test_nothing_found(tmp_path, root):
    (tmp_path / "empty").mkdir()
    assert latest(tmp_path / root).path is None


def cut(path):
    (path / "data").write_text("")


def change(path):
    (path / "data").write_text("y")


def remove(path):
    (path / "data").unlink()


def no_manifest(path):
    (path / "manifest.json").unlink()


def half_manifest(path):
    (path / "manifest.json").write_text('{"schema": 1, "fil')


def list_manifest(path):
    (path / "manifest.json").write_text("[]")


def next_schema(path):
    (path / "manifest.json").write_text('{"schema": 2, "files": {}}')


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (cut, "data has 0 bytes instead of 1"),
        (change, "data has other content than was written"),
        (remove, "data is missing"),
        (no_manifest, "it has no manifest.json"),
        (half_manifest, "its manifest.json cannot be read"),
        (list_manifest, "its manifest.json cannot be read"),
        (next_schema, "its manifest.json has schema 2; this version reads 1"),
    ],
)
def test_damaged_ones_are_skipped_and_told(tmp_path, damage, reason):
    write(tmp_path, 1)
    bad = write(tmp_path, 2)
    damage(bad)
    found = latest(tmp_path)
    assert (found.step, found.skipped) == (1, ((bad, reason),))
    with pytest.raises(InputError, match=reason):
        verify(bad)


def test_a_whole_one_is_never_overwritten(tmp_path):
    write(tmp_path, 1)
    with pytest.raises(InputError, match="never overwritten"):
        write(tmp_path, 1, "new")
    assert (tmp_path / "step-000001" / "data").read_text() == "x"
    assert [p.name for p in tmp_path.iterdir()] == ["step-000001"]


def test_a_damaged_one_is_set_aside(tmp_path):
    for _ in range(2):
        cut(write(tmp_path, 1))
    write(tmp_path, 1, "new")
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "step-000001",
        "step-000001.damaged",
        "step-000001.damaged-2",
    ]
    assert latest(tmp_path).skipped == ()


def test_a_failure_leaves_nothing_behind(tmp_path):
    def fail(place):
        (place / "data").write_text("x")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_directory(tmp_path / "step-000001", fail)
    assert list(tmp_path.iterdir()) == []


SLOW_WRITER = """
import sys, time, pathlib
from art_core.training.manifest import write_directory
def fill(place):
    (place / "data").write_text("x")
    print("begun", flush=True)
    time.sleep(60)
write_directory(pathlib.Path(sys.argv[1]) / "step-000002", fill)
"""


KILLED_RENAMING = """
import os, pathlib, signal, sys
from art_core.training.manifest import write_directory
rename, left = pathlib.Path.rename, [int(sys.argv[2])]
def counting(path, target):
    left[0] -= 1
    if left[0] < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(path, target)
pathlib.Path.rename = counting
write_directory(pathlib.Path(sys.argv[1]) / "step-000002", lambda place: (place / "data").write_text("new"))
"""


@pytest.mark.parametrize(("renames", "ended", "step"), [(0, -9, 1), (1, -9, 1), (2, 0, 2)])
def test_t21_killed_while_a_damaged_one_is_replaced_loses_nothing(tmp_path, renames, ended, step):
    write(tmp_path, 1)
    cut(write(tmp_path, 2))
    killed = subprocess.run([sys.executable, "-c", KILLED_RENAMING, str(tmp_path), str(renames)], check=False)
    assert killed.returncode == ended
    assert latest(tmp_path).step == step
    if ended:
        write(tmp_path, 2)
    assert latest(tmp_path).step == 2
    assert (tmp_path / "step-000002.damaged" / "data").read_text() == ""


def test_t21_killed_by_the_system_leaves_the_previous_one(tmp_path):
    write(tmp_path, 1)
    with subprocess.Popen(
        [sys.executable, "-c", SLOW_WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        os.kill(process.pid, signal.SIGKILL)
    found = latest(tmp_path)
    assert (found.step, found.skipped) == (1, ())
    write(tmp_path, 2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-000001", "step-000002"]
