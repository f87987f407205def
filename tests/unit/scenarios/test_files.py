from pathlib import Path

import pytest

from art_core.errors import InputError
from art_core.scenario import Scenario, load_scenarios
from art_core.scenarios.files import write_scenarios
from art_core.scenarios.generate import generate

from .time_tools import TIME_TOOLS


def test_what_is_written_is_read_back_equal(tmp_path: Path) -> None:
    scenarios = list(generate(TIME_TOOLS, 12).scenarios)
    assert write_scenarios(tmp_path / "new" / "scenarios.jsonl", scenarios) == 12
    assert load_scenarios(tmp_path / "new" / "scenarios.jsonl") == scenarios


def test_line_separators_inside_text_survive(tmp_path: Path) -> None:
    scenario = Scenario("s", "one\u2028two\x85three\nfour")
    write_scenarios(tmp_path / "s.jsonl", [scenario])
    assert load_scenarios(tmp_path / "s.jsonl") == [scenario]


def test_a_scenario_that_is_not_json_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    write_scenarios(path, [Scenario("old", "hi")])
    with pytest.raises(InputError, match="scenario 'bad' cannot be written as JSON"):
        write_scenarios(path, [Scenario("bad", {1, 2})])
    assert [s.id for s in load_scenarios(path)] == ["old"]
    assert [p.name for p in tmp_path.iterdir()] == ["s.jsonl"]


def test_equal_ids_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'a' occurs twice"):
        write_scenarios(tmp_path / "s.jsonl", [Scenario("a", "x"), Scenario("a", "y")])


def test_an_unwritable_place_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        write_scenarios(tmp_path / "file" / "s.jsonl", [Scenario("a", "x")])
