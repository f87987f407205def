import json
import math
import subprocess
import sys
import warnings
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from art_core.errors import InputError
from art_core.messages import MalformedCall, Message, ToolCall, ToolSpec
from art_core.scenario import Scenario
from art_core.trajectory.graph import PolicyVersion, Span, TokenGraph, Turn
from art_core.trajectory.store import CutRecord, append, from_record, read, to_record
from art_core.trajectory.trajectory import ModelCall, ToolEvent, Trajectory

TASK = Scenario("s1", "What is 1+1?", expected="2", metadata={"level": 1})
ADD = ToolSpec(name="add", parameters={"type": "object", "properties": {"a": {"type": "number"}}})


def turn(number: int, **fields) -> Turn:
    defaults = {
        "id": f"t{number}",
        "parent": f"t{number - 1}" if number else None,
        "parent_len": 60 * number,
        "context_ids": tuple(range(40)),
        "completion_ids": tuple(range(20)),
        "logprobs": (-0.1234567890123,) * 20,
        "versions": (Span(0, PolicyVersion("default", 3)),),
        "parent_messages": 2 * number,
        "messages": (Message(role="user", content=f"question {number:04d}"),),
        "reply": Message(role="assistant", content=f"answer {number:04d}"),
        "tools": (ADD,),
    }
    return Turn(**{**defaults, **fields})


def trajectory(turns: int = 2, **fields) -> Trajectory:
    graph = TokenGraph(turn(number) for number in range(turns))
    return Trajectory(scenario=TASK, rollout_id="r1", group_id="0-s1", graph=graph, stop_reason="finished", **fields)


def told(t: Trajectory) -> str:
    """Everything in a trajectory but its environment, NaN included, as text to compare."""
    names = [name for name in t.__slots__ if name not in ("graph", "environment")]
    return repr([(name, getattr(t, name)) for name in names] + t.turns)


text = st.text(max_size=8)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | text | st.binary(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(text | st.integers(), inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.sampled_from(["$float", "$tuple", "$bytes", "$map", "$repr", "$other"]).flatmap(
            lambda key: inner.map(lambda value: {key: value})
        )
    ),
    max_leaves=6,
)
objects = st.dictionaries(text, plain, max_size=3)
contents = st.none() | text | st.lists(objects, max_size=2).map(tuple)
calls = st.builds(
    ToolCall, id=text, name=text, arguments=st.dictionaries(text, st.integers(), max_size=2).map(json.dumps)
)
replies = st.builds(
    Message,
    role=st.just("assistant"),
    content=contents,
    tool_calls=st.lists(calls, max_size=2).map(tuple),
    malformed_calls=st.lists(st.builds(MalformedCall, raw=text, error=text), max_size=2).map(tuple),
    reasoning=st.none() | text,
    name=st.none() | text,
)
asked = st.builds(Message, role=st.sampled_from(["user", "system", "developer"]), content=contents) | st.builds(
    Message, role=st.just("tool"), content=contents, tool_call_id=text
)
tools = st.lists(st.builds(ToolSpec, name=st.text(min_size=1), description=text, parameters=objects), max_size=2).map(
    tuple
)
spans = st.builds(Span, st.integers(0, 2), st.builds(PolicyVersion, text, st.integers(0, 9))).map(lambda span: (span,))
events = st.builds(
    ToolEvent,
    turn=st.none() | text,
    call_id=text,
    name=text,
    arguments=plain,
    result=text,
    error=st.none() | text,
    structured=plain,
    started_s=st.floats(),
    metadata=objects,
)


@st.composite
def trajectories(draw) -> Trajectory:
    graph = TokenGraph()
    for number in range(draw(st.integers(0, 3))):
        parent = draw(st.sampled_from([None, *(t.id for t in graph)]))
        graph.add(
            Turn(
                id=f"t{number}",
                parent=parent,
                parent_len=draw(st.integers(0, graph.path_len(parent))) if parent else 0,
                context_ids=tuple(draw(st.lists(st.integers(0, 9), max_size=3))),
                completion_ids=(1, 2),
                logprobs=draw(st.none() | st.tuples(st.floats(), st.floats())),
                temperature=draw(st.floats(0, 2)),
                versions=draw(spans),
                finish_reason=draw(st.sampled_from(["stop", "length", "abort"])),
                not_trainable=draw(st.none() | text),
                messages=tuple(draw(st.lists(asked, max_size=2))),
                reply=draw(replies),
                tools=draw(tools),
                fork=draw(st.none() | text),
                metadata=draw(objects),
            )
        )
    return Trajectory(
        scenario=Scenario("s1", draw(plain.filter(lambda value: value is not None)), draw(plain), draw(objects)),
        rollout_id=draw(text),
        graph=graph,
        events=draw(st.lists(events, max_size=2)),
        output=draw(plain),
        reward=draw(st.none() | st.floats()),
        success=draw(st.none() | st.booleans()),
        reward_parts=draw(st.dictionaries(text, st.floats(), max_size=2)),
        metrics=draw(st.dictionaries(text, st.floats(), max_size=2)),
        metadata=draw(objects),
        stop_reason=draw(st.none() | text),
        error=draw(st.none() | text),
    )


@given(trajectories())
def test_what_is_read_is_what_was_written(t) -> None:
    line = json.dumps(to_record(t), allow_nan=False)
    assert told(from_record(json.loads(line))) == told(t)


def test_files_give_back_what_was_appended(tmp_path) -> None:
    path = tmp_path / "new" / "step-000001.jsonl"
    written = [trajectory(number, reward=0.5) for number in (0, 1, 3)]
    for t in written:
        append(path, t)
    assert [told(t) for t in read(path)] == [told(t) for t in written]
    assert len(path.read_bytes().splitlines()) == 3


@pytest.mark.parametrize("content", ["a\u2028b\x85c\nd", "\ud800 alone", "naïve 日本 🎈"])
def test_any_text_stays_on_one_line_and_comes_back(tmp_path, content) -> None:
    append(tmp_path / "t.jsonl", trajectory(output=content))
    append(tmp_path / "t.jsonl", trajectory())
    assert next(read(tmp_path / "t.jsonl")).output == content


def test_logprobs_that_are_not_finite_come_back(tmp_path) -> None:
    graph = TokenGraph([turn(0, logprobs=(math.nan, math.inf, -math.inf, *[-1e-300] * 17))])
    append(tmp_path / "t.jsonl", replace_graph(trajectory(), graph))
    logprobs = next(read(tmp_path / "t.jsonl")).turns[0].logprobs
    assert math.isnan(logprobs[0])
    assert logprobs[1:4] == (math.inf, -math.inf, -1e-300)


def replace_graph(t: Trajectory, graph: TokenGraph) -> Trajectory:
    t.graph = graph
    return t


def test_a_cut_last_line_is_reported_and_the_earlier_ones_are_read(tmp_path) -> None:
    path = tmp_path / "t.jsonl"
    for _ in range(3):
        append(path, trajectory())
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.warns(CutRecord, match=r"t\.jsonl, line 3 was cut off after \d+ bytes"):
        assert len(list(read(path))) == 2


WRITER = """
import sys
from art_core.scenario import Scenario
from art_core.trajectory.store import append
from art_core.trajectory.trajectory import Trajectory

for number in range(10**9):
    append(sys.argv[1], Trajectory(scenario=Scenario("s", "x" * 5000), rollout_id=str(number)))
    print(number, flush=True)
"""


def test_a_killed_writer_loses_nothing_it_had_finished(tmp_path) -> None:
    path = tmp_path / "t.jsonl"
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as process:
        for _ in range(20):
            last = int(process.stdout.readline())
        process.kill()
        last = max([last, *map(int, process.stdout.read().split("\n")[:-1])])
    append(path, trajectory())
    with warnings.catch_warnings(action="ignore"):
        ids = [t.rollout_id for t in read(path)]
    assert ids[: last + 1] == [str(number) for number in range(last + 1)]
    assert ids[-1] == "r1"


def test_appending_after_a_cut_line_loses_nothing_more(tmp_path) -> None:
    path = tmp_path / "t.jsonl"
    append(path, trajectory(1))
    append(path, trajectory(2))
    path.write_bytes(path.read_bytes()[:-50])
    append(path, trajectory(3))
    with pytest.warns(CutRecord, match="line 2"):
        assert [len(t.turns) for t in read(path)] == [1, 3]


def test_a_line_that_lacks_only_its_newline_is_whole(tmp_path) -> None:
    path = tmp_path / "t.jsonl"
    append(path, trajectory(1))
    path.write_bytes(path.read_bytes()[:-1])
    append(path, trajectory(2))
    with warnings.catch_warnings(action="error"):
        assert [len(t.turns) for t in read(path)] == [1, 2]


def test_a_newer_schema_is_refused_in_one_sentence(tmp_path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps({**to_record(trajectory()), "schema": 2}) + "\n")
    with pytest.raises(
        InputError, match=r"line 1: the trajectory has schema 2, and this version reads up to 1; read it"
    ):
        list(read(path))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"schema": None}, "its schema is None"),
        ({"turns": None}, "cannot be read"),
        ({"turns": [{}]}, "lacks the field 'logprobs'"),
        ({"output": {"$bytes": 7}}, r"kind \$bytes cannot be read"),
        ({"scenario": {"id": "s1"}}, "lacks the field 'input'"),
    ],
)
def test_what_is_not_a_record_is_refused(change, text) -> None:
    with pytest.raises(InputError, match=text):
        from_record({**to_record(trajectory()), **change})


def test_a_line_that_is_no_object_is_refused_by_number(tmp_path) -> None:
    (tmp_path / "t.jsonl").write_text("\n[1]\n")
    with pytest.raises(InputError, match=r"line 2: not a trajectory record: \[1\]"):
        list(read(tmp_path / "t.jsonl"))


def test_a_missing_file_is_bad_input(tmp_path) -> None:
    with pytest.raises(InputError, match=r"cannot read '.*none\.jsonl': No such file"):
        list(read(tmp_path / "none.jsonl"))


def test_storage_is_linear_in_turns() -> None:
    sizes = [len(json.dumps(to_record(trajectory(turns)))) for turns in (20, 40)]
    assert sizes[1] < 2.2 * sizes[0]


def test_the_environment_is_not_stored() -> None:
    assert "environment" not in to_record(trajectory(environment=object()))


@dataclass
class Answer:
    value: int


class Rude:
    def __repr__(self) -> str:
        raise ValueError("no")


def test_foreign_outputs_never_cost_the_record() -> None:
    loop: list = []
    loop.append(loop)
    outputs = [Answer(3), {1, 2}, Rude(), loop, Answer]
    read_back = [from_record(to_record(trajectory(output=output))).output for output in outputs]
    assert read_back[0] == {"value": 3}
    assert read_back[1] == "{1, 2}"
    assert read_back[2] == "<Rude that cannot be stored: ValueError: no>"
    assert read_back[3] == "[[...]]"
    assert read_back[4].startswith("<class ")


def test_one_toolset_is_stored_once() -> None:
    record = to_record(trajectory(9))
    assert len(record["toolsets"]) == 1
    assert {t["tools"] for t in record["turns"]} == {0}


def test_samples_are_the_same_after_a_round_trip() -> None:
    before = trajectory(3)
    after = from_record(json.loads(json.dumps(to_record(before))))
    (row, again) = (before.samples()[0], after.samples()[0])
    assert row.token_ids.tolist() == again.token_ids.tolist()
    assert row.logprobs.tolist() == again.logprobs.tolist()
    assert replace(row.version) == again.version


def test_calls_of_other_models_come_back_as_they_were(tmp_path):
    call = ModelCall(
        messages=(Message(role="user", content="Is it noon?"),),
        reply=Message(role="assistant", content="Yes."),
        tools=(ToolSpec(name="clock", description="Tell the time.", parameters={"type": "object"}),),
        input_tokens=7,
        output_tokens=2,
        started_s=0.5,
        ended_s=1.5,
        metadata={"model": "gpt-5", "node": "judge"},
    )
    failed = ModelCall(messages=call.messages, reply=None, error="RateLimitError: slow down")
    told = Trajectory(scenario=TASK, rollout_id="r", model_calls=[call, failed])
    append(tmp_path / "t.jsonl", told)
    (again,) = read(tmp_path / "t.jsonl")
    assert again.model_calls == [call, failed]


def test_a_record_from_before_there_were_other_models_can_be_read():
    record = to_record(Trajectory(scenario=TASK, rollout_id="r"))
    del record["model_calls"]
    assert from_record(record).model_calls == []
