"""Files that a crash leaves whole."""

from __future__ import annotations

import json
import os
import stat

import pytest

from art_core.disk import append_line, write_whole


def test_a_file_holds_exactly_what_was_written_and_its_folder_is_made(tmp_path):
    path = tmp_path / "new" / "file.txt"
    write_whole(path, "once, and longer")
    write_whole(path, (line for line in ("a\n", "b\n")))
    assert path.read_text() == "a\nb\n"
    assert os.listdir(path.parent) == ["file.txt"]


def test_a_writing_that_breaks_off_leaves_what_was_there(tmp_path):
    path = tmp_path / "file.txt"
    write_whole(path, "old")

    def lines():
        yield "new"
        raise KeyError

    with pytest.raises(KeyError):
        write_whole(path, lines())
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file.txt"]


def test_others_may_read_it_as_any_new_file(tmp_path):
    (tmp_path / "plain").write_text("")
    write_whole(tmp_path / "whole", "")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "whole")]
    assert modes[0] == modes[1]


def test_a_lone_surrogate_is_read_back_as_it_was(tmp_path):
    path = tmp_path / "file.jsonl"
    said = {"text": "\udc80 é"}
    write_whole(path, json.dumps(said, ensure_ascii=False) + "\n")
    append_line(path, json.dumps(said, ensure_ascii=False))
    assert [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] == [said, said]


@pytest.mark.parametrize("before", ["", "1\n", "1"])
def test_a_line_is_glued_to_nothing(tmp_path, before):
    path = tmp_path / "file.jsonl"
    path.write_text(before)
    append_line(path, "2")
    append_line(path, "3")
    assert path.read_text().split() == [*before.split(), "2", "3"]


def test_a_line_that_cannot_be_written_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "file.jsonl"
    append_line(path, "first")
    write = os.write

    def full(descriptor, data):
        if len(data) < 4:
            raise OSError(28, "No space left on device")
        return write(descriptor, data[:4])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        append_line(path, "second")
    assert path.read_text() == "first\n"
