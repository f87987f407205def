"""What an author is asked for, and what of its answer can be used."""

from __future__ import annotations

import pytest

from art_core.authoring.brief import Brief, Flaw, messages_of
from art_core.errors import InputError
from art_core.messages import ToolSpec
from art_core.scenario import Scenario

ORDERS = Brief(about="Answers questions about orders.", tools=(ToolSpec(name="find_order", description="Finds one."),))


def written(request, difficulty):
    return Scenario(request, request, metadata={"difficulty": difficulty})


def test_the_prompt_names_the_job_the_tools_what_is_there_and_what_is_written_already():
    brief = Brief(about="Orders.", tools=ORDERS.tools, facts=("Table orders",))
    asked = brief.asking(2, [written("Where is order 7?", 1)])[1]["content"]
    assert [part.partition("\n")[0] for part in asked.split("\n\n")] == [
        "What the assistant is for:",
        "The tools it has:",
        "What is there; ask about nothing else:",
        "These are written already; write others:",
        "Write 2 requests. difficulty is from 1 (one obvious step) to 5 (several steps, of which the later ones depend on "
        "what the earlier ones bring); fewest there are of 2, 3, 4, 5. tools are the names of those that the request takes.",
    ]


def test_a_scenario_of_several_messages_is_one_message_of_the_user_after_the_other():
    brief = Brief(about="Explains words.", turns=2)
    entry = {"messages": ["What is a fjord?", "And a firth?"], "difficulty": 2, "tools": []}
    assert brief.accept(entry).input == [
        {"role": "user", "content": "What is a fjord?"},
        {"role": "user", "content": "And a firth?"},
    ]
    assert brief.schema()["properties"]["scenarios"]["items"]["required"] == ["messages", "difficulty", "tools"]
    assert "Each has 2 messages of one person" in brief.asking(1, [])[1]["content"]
    assert messages_of(Scenario("a", brief.accept(entry).input)) == ["What is a fjord?", "And a firth?"]


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        (["Only one"], "without 2 messages"),
        (["One", " "], "without a request"),
        ("One and two", "without a request"),
        (["One", 2], "without a request"),
    ],
)
def test_other_numbers_of_messages_are_refused(messages, reason):
    with pytest.raises(Flaw, match=reason):
        Brief(about="Explains.", turns=2).accept({"messages": messages, "difficulty": 1, "tools": []})


def test_another_job_other_tools_or_other_facts_make_another_brief():
    briefs = [ORDERS, Brief(about="Orders."), Brief(about="Orders.", facts=("a",)), Brief(about="Orders.", turns=2)]
    assert len({brief.key for brief in briefs}) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"about": " "}, "say in a few words what the assistant is for"),
        ({"about": "x", "turns": 0}, "at least 1 message"),
    ],
)
def test_a_brief_of_nothing_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        Brief(**options)


def test_where_there_are_no_tools_what_is_said_of_them_does_not_count():
    entry = {"request": "Hello", "difficulty": 1, "tools": ["search"]}
    assert Brief(about="Greets.").accept(entry).tools == ()
