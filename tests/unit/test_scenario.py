import json
import subprocess
import sys

import pytest

from art_core.errors import InputError
from art_core.scenario import Scenario, ScenarioSource, load_scenarios, read_jsonl

FIVE = [Scenario(f"s{i}", f"question {i}") for i in range(5)]


def test_a_record_goes_there_and_back() -> None:
    for scenario in (Scenario("q", "x"), Scenario("q", [{"role": "user"}], expected=0, metadata={"level": 2})):
        assert Scenario.from_record(json.loads(json.dumps(scenario.to_record()))) == scenario


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ("x", "must be a JSON object, got str"),
        ({"id": "q"}, "needs the key 'input'"),
        ({"id": "q", "input": "x", "answer": 1}, "unknown key 'answer'.*valid keys are id, input, expected, metadata"),
        ({"id": "q", "input": None}, "scenario 'q' has no input"),
        ({"input": "x"}, "id must be a non-empty string"),
        ({"id": "q", "input": "x", "metadata": [1]}, r"metadata must be a JSON object, got \[1\]"),
    ],
)
def test_records_that_cannot_be_used(record, text) -> None:
    with pytest.raises(InputError, match=text):
        Scenario.from_record(record)


def test_every_epoch_has_every_scenario_once() -> None:
    source = ScenarioSource(FIVE, seed=1)
    epochs = [[source.at(epoch * 5 + i).id for i in range(5)] for epoch in range(4)]
    assert all(sorted(epoch) == ["s0", "s1", "s2", "s3", "s4"] for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) > 1


def test_the_stream_can_be_entered_anywhere() -> None:
    straight = [ScenarioSource(FIVE, seed=3).at(i) for i in range(23)]
    source = ScenarioSource(FIVE, seed=3)
    assert [source.at(i) for i in reversed(range(23))] == straight[::-1]


def test_batches_cut_the_stream_into_steps() -> None:
    source = ScenarioSource(FIVE, seed=3)
    assert source.batch(0, 3) + source.batch(1, 3) == [source.at(i) for i in range(6)]


def test_the_order_is_the_same_in_another_process() -> None:
    code = "from art_core.scenario import *; s = ScenarioSource([Scenario(f's{i}', 'x') for i in range(5)], seed=3)"
    code += "; print([s.at(i).id for i in range(12)])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == str([ScenarioSource(FIVE, seed=3).at(i).id for i in range(12)])


def test_seeds_differ() -> None:
    orders = {tuple(ScenarioSource(FIVE, seed=seed).at(i).id for i in range(5)) for seed in range(9)}
    assert len(orders) > 5


@pytest.mark.parametrize(
    ("scenarios", "text"), [([], "at least one is needed"), ([FIVE[0], FIVE[0]], "'s0' occurs twice")]
)
def test_sources_that_cannot_be_used(scenarios, text) -> None:
    with pytest.raises(InputError, match=text):
        ScenarioSource(scenarios)


def test_scenarios_from_a_file(tmp_path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"id": "a", "input": "x"}\n\n"just text"\n', encoding="utf-8")
    first, second = load_scenarios(path)
    assert (first, second.input) == (Scenario("a", "x"), "just text")


def test_unusual_line_separators_inside_a_text_do_not_cut_it(tmp_path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(json.dumps({"input": "a\u2028b\x85c"}, ensure_ascii=False) + "\r\n", encoding="utf-8")
    assert load_scenarios(path)[0].input == "a\u2028b\x85c"


def test_an_id_made_from_the_content_is_stable() -> None:
    ids = [load_scenarios(source)[0].id for source in (["What?"], [{"input": "What?"}], lambda: ["What?"])]  # type: ignore[list-item]
    assert len(set(ids)) == 1
    assert ids[0] != load_scenarios(["Why?"])[0].id


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "line 1 is not JSON"), ("7", "row 1: a scenario must be a JSON object"), ("", "holds no scenarios")],
)
def test_files_that_cannot_be_used(tmp_path, text, message) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        load_scenarios(path)


def test_a_file_that_is_not_there_or_not_text(tmp_path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_jsonl(tmp_path / "none.jsonl")
    (tmp_path / "b.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8 text"):
        read_jsonl(tmp_path / "b.jsonl")


def test_an_empty_list_is_refused() -> None:
    with pytest.raises(InputError, match="there are no scenarios"):
        load_scenarios([])
