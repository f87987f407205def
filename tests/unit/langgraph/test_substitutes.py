"""Recorded answers in the place of tools."""

from __future__ import annotations

import pytest

from art_core.errors import InputError
from art_integrations.langgraph import Replay, record_answers

from .graphs import assistant
from .running import asked, run

ROME = [("get_time", {"city": "Rome"})]


def stubbed(city):
    return f"late in {city}"


def shown(trajectory):
    """What the model was shown of its tools."""
    return [text for role, text in asked(trajectory)[-1] if role == "tool"]


async def recorded(path, replies, **options):
    return record_answers(path, [await run(assistant(), replies, **options)])


async def test_recorded_answers_answer_later_in_the_place_of_the_tool(tmp_path):
    path = tmp_path / "answers.jsonl"
    assert await recorded(path, [ROME, [("get_time", {"city": "Oslo"})], "ok"]) == 2
    path.write_text(path.read_text().replace("noon", "midnight"))
    trajectory = await run(assistant(), [ROME, "ok"], tools={"get_time": Replay(path)})
    assert shown(trajectory) == ["It is midnight in Rome."]
    assert trajectory.events[0].metadata == {"answered_by": "replay"}
    assert record_answers(path, [trajectory]) == 0


def write(path, *rows):
    path.write_text("\n".join(rows))
    return path


SAME = '{"tool": "get_time", "arguments": {"city": "Rome"}, "result": "%s"}'


async def test_the_nth_call_gets_the_nth_answer_in_every_rollout(tmp_path):
    replay = Replay(write(tmp_path / "a.jsonl", SAME % "one", SAME % "two"))
    for _ in range(2):
        trajectory = await run(assistant(), [ROME, ROME, "ok"], tools={"get_time": replay})
        assert shown(trajectory) == ["one", "two"]


async def test_a_call_that_was_not_recorded_ends_the_rollout_or_is_answered_otherwise(tmp_path):
    path = write(tmp_path / "a.jsonl", SAME % "one")
    oslo = [[("get_time", {"city": "Oslo"})], "ok"]
    trajectory = await run(assistant(), oslo, tools={"get_time": Replay(path)})
    assert trajectory.error.startswith(
        f'tool: {path} holds no answer to call 1 of get_time({{"city":"Oslo"}}); record it'
    )
    trajectory = await run(assistant(), oslo, tools={"get_time": Replay(path, otherwise=stubbed)})
    assert shown(trajectory) == ["late in Oslo"]


async def test_a_recorded_failure_is_told_as_it_was(tmp_path):
    path = tmp_path / "a.jsonl"
    record_answers(path, [await run(assistant(), [[("broken", {"city": "Atlantis"})]])])
    trajectory = await run(assistant(), [[("broken", {"city": "Atlantis"})], "ok"], tools={"broken": Replay(path)})
    assert shown(trajectory) == ["RuntimeError: no such place: Atlantis"]
    assert trajectory.events[0].error == "tool_error"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (['{"tool": "x"}'], "entry 1 is no recorded answer: an object with tool, arguments and result is needed"),
        (["nonsense"], "line 1 is not JSON"),
    ],
)
def test_what_is_no_recording_is_told(tmp_path, rows, message):
    with pytest.raises(InputError, match=message):
        Replay(write(tmp_path / "a.jsonl", *rows))
