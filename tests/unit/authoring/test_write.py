"""Scenarios that a model writes: checked one by one, kept as they come, and never more or fewer than is told."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from art_core.authoring.brief import Brief
from art_core.authoring.shelf import Shelf
from art_core.authoring.similar import Known
from art_core.authoring.write import write_more
from art_core.errors import InputError
from art_core.judging.asking import Asker, Bounds
from art_core.judging.judges import find_judge
from art_core.messages import ToolSpec
from art_core.scenario import load_scenarios
from tests.servers.chat_server import chat_server

BRIEF = Brief(about="Answers questions about orders.", tools=(ToolSpec(name="find_order"),))


def requests(*texts, difficulty=1, tools=("find_order",)):
    entries = [{"request": text, "difficulty": difficulty, "tools": list(tools)} for text in texts]
    return json.dumps({"scenarios": entries})


def author():
    """Writes as many as it is asked for, none twice."""
    count = iter(range(10_000))

    def write(messages):
        wanted = int(re.search(r"Write (\d+) requests", messages[-1]["content"])[1])
        return requests(*(f"Where is order {1000 + next(count)}?" for _ in range(wanted)))

    return write


async def write(model, path, count, brief=BRIEF, **bounds):
    shelf = Shelf.open(path, brief)
    done = await write_more(Asker(find_judge(model), Bounds(**bounds)), brief, count, shelf)
    return SimpleNamespace(scenarios=shelf.kept, shortfall=done.shortfall, refused=done.refused)


async def test_exactly_as_many_as_were_asked_for_are_written_with_where_they_come_from(tmp_path):
    done = await write(author(), tmp_path / "s.jsonl", 23)
    assert (len(done.scenarios), done.shortfall, done.refused) == (23, None, {})
    assert load_scenarios(tmp_path / "s.jsonl") == done.scenarios
    first, last = done.scenarios[0], done.scenarios[-1]
    assert (first.input, first.metadata["difficulty"], first.metadata["tools"]) == (
        "Where is order 1000?",
        1,
        ["find_order"],
    )
    assert (first.metadata["written"], last.metadata["written"]["batch"]) == (
        {"model": "write", "brief": BRIEF.key, "batch": 1},
        3,
    )


async def test_over_http_the_model_is_held_to_the_schema(tmp_path):
    writing = author()
    with chat_server(lambda body: writing(body["messages"])) as server:
        asker = Asker(find_judge(f"m@{server.url}"), Bounds())
        await write_more(asker, BRIEF, 2, Shelf.open(tmp_path / "s.jsonl", BRIEF))
        await asker.close()
    schema = server.requests[0]["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["scenarios"]["items"]["properties"]["tools"]["items"]["enum"] == ["find_order"]


async def test_what_was_cut_short_goes_on_where_it_ended(tmp_path):
    asked = []

    def dies(messages):
        asked.append(messages)
        if len(asked) == 2:
            raise ValueError("out of credit")
        return author()(messages)

    done = await write(dies, tmp_path / "s.jsonl", 20, attempts=1)
    assert len(done.scenarios) == 10
    assert done.shortfall == "10 of 20 scenarios were written: dies: ValueError: out of credit"
    other = iter(range(5000, 6000))
    again = await write(
        lambda m: requests(*(f"Where is order {next(other)}?" for _ in range(10))), tmp_path / "s.jsonl", 20
    )
    assert again.scenarios[:10] == done.scenarios
    assert [s.metadata["written"]["batch"] for s in again.scenarios[9:11]] == [1, 2]


async def test_what_is_like_another_one_is_refused_and_the_end_is_told(tmp_path):
    done = await write(
        lambda m: requests("Where is order 7?", "Tell me where order 7 is, please."), tmp_path / "s.jsonl", 5
    )
    assert [scenario.input for scenario in done.scenarios] == ["Where is order 7?"]
    assert done.shortfall == (
        "1 of 5 scenarios were written: 3 batches in a row brought no new one (7 like one that is there already)"
    )


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("Where?", "without a request"),
        ({"request": " ", "difficulty": 1}, "without a request"),
        ({"request": "x" * 5000, "difficulty": 1}, "too long"),
        ({"request": "Where?", "difficulty": 9}, "without a difficulty from 1 to 5"),
        ({"request": "Where?", "difficulty": True}, "without a difficulty from 1 to 5"),
        ({"request": "Where?", "difficulty": "easy"}, "without a difficulty from 1 to 5"),
        ({"request": "Where?", "difficulty": 1, "tools": ["fly"]}, "with a tool that does not exist"),
        ({"request": "Where?", "difficulty": 1, "tools": "find_order"}, "with a tool that does not exist"),
    ],
)
async def test_what_cannot_be_used_is_counted_by_its_reason(tmp_path, entry, reason):
    done = await write(lambda messages: json.dumps({"scenarios": [entry]}), tmp_path / "s.jsonl", 1)
    assert (done.scenarios, done.refused) == ([], {reason: 3})


async def test_more_than_were_asked_for_are_counted(tmp_path):
    done = await write(lambda messages: requests("One?", "Two?", "Three?"), tmp_path / "s.jsonl", 2)
    assert (len(done.scenarios), done.refused) == (2, {"more than were asked for": 1})


async def test_the_rarest_difficulties_are_asked_for(tmp_path):
    asked = []

    def model(messages):
        asked.append(messages[-1]["content"])
        return requests(f"Where is order {len(asked)}?", difficulty=len(asked))

    await write(model, tmp_path / "s.jsonl", 3)
    assert ["fewest there are of 1, 2, 3, 4, 5" in asked[0], "fewest there are of 3, 4, 5" in asked[2]] == [True, True]


async def test_a_file_of_another_origin_is_left_as_it_is(tmp_path):
    (tmp_path / "s.jsonl").write_text('{"input": "mine"}\n')
    with pytest.raises(InputError, match="holds scenarios of another origin"):
        await write(author(), tmp_path / "s.jsonl", 3)
    assert (tmp_path / "s.jsonl").read_text() == '{"input": "mine"}\n'


@given(st.lists(st.text(min_size=1, max_size=30), max_size=6))
def test_a_request_is_always_like_itself(texts):
    known = Known(texts)
    assert all(known.like(text) is not None for text in texts)


def test_numbers_and_names_make_another_request():
    known = Known(["Where is order 5?"])
    assert known.like("Where is order 6?") is None
    assert known.like("where is ORDER 5") == "Where is order 5?"
