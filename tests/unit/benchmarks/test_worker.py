"""A benchmark's child process answers step by step, and says why when it dies."""

import sys
import textwrap

import pytest

from benchmarks.trl_environment import ROOT
from benchmarks.worker import Child, peak_rss_gb

ANSWERS = """
    import sys
    sys.path.insert(0, {root!r})
    from benchmarks.worker import Parent
    parent = Parent()
    print("a library's chatter")
    parent.answer(ready=True)
    for number in (1, 2):
        if parent.wait():
            parent.answer(number=number)
    sys.exit("out of steps")
"""


def child(code: str) -> Child:
    return Child([sys.executable, "-c", textwrap.dedent(code).format(root=str(ROOT))], {})


def test_it_answers_in_turn_and_nothing_else_reaches_the_parent():
    with child(ANSWERS) as process:
        assert process.read()["ready"] is True
        assert [process.step()["number"] for _ in range(2)] == [1, 2]


def test_a_child_that_dies_is_told_with_its_last_words():
    with child("raise RuntimeError('no such model')") as process, pytest.raises(SystemExit, match="no such model"):
        process.read()


def test_peak_memory_is_the_child_s_own():
    held = bytearray(200_000_000)
    with child(ANSWERS) as process:
        assert 0 < process.read()["peak_rss_gb"] < 0.15 < peak_rss_gb()
    assert len(held) == 200_000_000
