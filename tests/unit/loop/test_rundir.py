"""A run directory appears whole or not at all."""

import pytest

from art_core.errors import InputError
from art_core.loop.rundir import RunDir


def write(run):
    (run.scenarios / "train.jsonl").write_text("")


def test_a_new_directory_has_its_record_and_its_scenarios(tmp_path):
    made = RunDir.create(tmp_path / "runs" / "r", {"base_model": "m"}, write)
    assert made.read_record() == {"base_model": "m"}
    assert (made.scenarios / "train.jsonl").exists()
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["r"]


def test_what_fails_leaves_nothing(tmp_path):
    def fail(run):
        raise InputError("no")

    with pytest.raises(InputError, match=r"^no$"):
        RunDir.create(tmp_path / "r", {}, fail)
    assert list(tmp_path.iterdir()) == []


def test_what_a_kill_left_half_made_is_begun_again(tmp_path):
    (tmp_path / ".r.partial" / "scenarios").mkdir(parents=True)
    RunDir.create(tmp_path / "r", {}, write)
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_an_empty_directory_may_be_used(tmp_path):
    (tmp_path / "r").mkdir()
    assert RunDir.create(tmp_path / "r", {}, write).read_record() == {}
