"""The example ``examples/email_agent``: the mail, the unchanged program with the stand-in for its model, the questions, the reward, the judge."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import date

import pytest

import art_core as art
from art_core.cli.judging import JudgeOptions
from art_core.cli.references import make_agent, make_reward
from art_core.cli.train import TrainFile
from art_core.config import read_toml
from art_core.scenarios.split import split
from art_integrations.openai_sdk import PythonAgent
from tests.full.mail_judge import mail_judge
from tests.servers.roles import Roles, roles_server

from .serving import EXAMPLES, serving

EXAMPLE = EXAMPLES / "email_agent"
QUESTIONS = art.load_scenarios(EXAMPLE / "questions.jsonl")
ROOM = QUESTIONS[0]
"""In which room is the April review of Puffin? F184, says m0590."""


@pytest.fixture(scope="module")
def example():
    """Imports a module of the example, whose model is the stand-in."""
    with serving("email_agent") as imported:
        yield imported


def scripted(example, replies, reward=None):
    """A rollout in which the model says these things."""
    agent = PythonAgent(example("mail_agent.agent").run)
    return asyncio.run(art.rollout(agent, ROOM, art.ScriptedPolicy(replies), reward=reward or example("checks").score))


def search(keywords="April review Puffin"):
    return [("search_emails", {"keywords": keywords})]


def read(message_id="m0590"):
    return [("read_email", {"message_id": message_id})]


def final(answer, *sources):
    return [("return_final_answer", {"answer": answer, "sources": list(sources)})]


def test_the_programs_code_has_no_word_of_this_project():
    words = {word for file in (EXAMPLE / "mail_agent").glob("*.py") for word in re.findall(r"\w+", file.read_text())}
    assert not {word for word in words if word in ("art", "reward", "rollout", "scenario") or word.startswith("art_")}


def test_the_mail_is_that_of_a_year_and_ten_people(example):
    messages, _ = example("mail_agent.demo").demo()
    boxes = Counter(address for one in messages for address in {one.sender, *one.recipients})
    assert len(messages) == len({one.id for one in messages}) == 2172
    assert (messages[0].sent[:7], messages[-1].sent[:7]) == ("2026-12", "2027-12")
    assert all(420 <= boxes[f"{name.lower().replace(' ', '.')}@fernwell.example"] <= 540 for name in STAFF)


STAFF = ["Nora Lindqvist", "Oskar Wendt", "Paula Ferreira", "Quentin Moreau", "Rosa Almeida"]
STAFF += ["Stefan Kolar", "Tilda Ekman", "Umberto Conti", "Vera Hoffmann", "Wim Jansen"]


def test_no_value_is_told_twice_and_its_message_tells_it(example):
    messages, facts = example("mail_agent.demo").demo()
    bodies = {one.id: one.body for one in messages}
    assert len({fact.answer for fact in facts}) == len(facts) == 800
    assert [fact for fact in facts if fact.answer not in bodies[fact.source]] == []


def test_a_sum_a_number_or_a_code_stands_in_one_message_only(example):
    messages, facts = example("mail_agent.demo").demo()
    words = Counter(word for one in messages for word in set(re.findall(r"[\w,]*\w", one.body)))
    assert {words[fact.answer] for fact in facts if fact.kind in ("amount", "number", "code", "tracking", "room")} == {
        1
    }


def test_a_search_wants_every_word_in_any_form_and_stays_in_one_mailbox(example):
    found = example("mail_agent.mailbox").search("wim.jansen@fernwell.example", "april PUFFIN reviews")
    assert [one["id"] for one in found] == ["m0590", "m0598", "m0597"]
    assert example("mail_agent.mailbox").search("nora.lindqvist@fernwell.example", "april PUFFIN reviews") == []
    assert len(example("mail_agent.mailbox").search("wim.jansen@fernwell.example", "review")) == 10


def test_a_search_keeps_to_days_and_sender(example):
    inbox, asked = "umberto.conti@fernwell.example", example("mail_agent.mailbox").search
    assert len(asked(inbox, "invoice", sender="Corvo Metals")) == 8
    (one,) = asked(inbox, "invoice", "2027-02-09", "2027-02-10", "Corvo Metals")
    assert (one["id"], one["sender"]) == ("m0254", "silas.gallo@corvo-metals.example")


def test_a_search_takes_any_text(example):
    found = [
        example("mail_agent.mailbox").search("wim.jansen@fernwell.example", text) for text in ('zebra" OR *', "(", "")
    ]
    assert found == [[], [], []]


def test_what_one_sent_oneself_is_from_me(example):
    told = example("mail_agent.agent").search_emails("wim.jansen@fernwell.example", "April review Puffin")
    assert [line.split(":")[0] for line in told.splitlines()] == [
        "m0590 2027-04-05 tilda.ekman@fernwell.example",
        "m0598 2027-04-06 paula.ferreira@fernwell.example",
        "m0597 2027-04-06 me",
    ]


def test_only_mail_of_ones_own_can_be_read(example):
    tool = example("mail_agent.agent").read_email
    assert tool("wim.jansen@fernwell.example", "m0590").startswith("From tilda.ekman@fernwell.example, 2027-04-05\n")
    assert tool("nora.lindqvist@fernwell.example", "m0590") == "no message 'm0590'"


def test_a_database_of_ones_own_takes_the_place_of_the_demo_mail(example, tmp_path, monkeypatch):
    import sqlite3

    mailbox, demo = example("mail_agent.mailbox"), example("mail_agent.demo")
    one = demo.Message(id="a", sent="2027-01-01T09:00", sender="x@y", recipients=("me@z",), subject="Tea", body="At 5.")
    mailbox.fill(sqlite3.connect(tmp_path / "mail.db"), [one]).close()
    monkeypatch.setenv("MAIL_DB", str(tmp_path / "mail.db"))
    mailbox.connection.cache_clear()
    try:
        assert [found["id"] for found in mailbox.search("me@z", "tea")] == ["a"]
    finally:
        mailbox.connection.cache_clear()


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (("forward", {}), "there is no tool 'forward'"),
        (("read_email", {"id": "m0590"}), "read_email does not take these arguments: id"),
        (("read_email", {"message_id": 608}), "the arguments are to be an object of texts"),
        (
            ("search_emails", {"keywords": "x", "sent_after": "May"}),
            "sent_after 'May' is not a date such as 2027-03-31",
        ),
        (("search_emails", {"keywords": "zebra"}), "nothing found"),
        (
            ("return_final_answer", {"answer": "F184"}),
            "an answer has the fields answer, a text, and sources, a list of ids",
        ),
    ],
)
def test_what_is_wrong_with_a_call_is_told_to_the_model(example, call, told):
    trajectory = scripted(example, [[call], final("I don't know.")])
    assert [message.text for message in trajectory.messages if message.role == "tool"] == [told]
    assert trajectory.output == {"answer": "I don't know.", "sources": []}


def test_the_stand_in_answers_every_stored_question_rightly(example):
    run, states = example("mail_agent.agent").run, example("checks").states
    with ThreadPoolExecutor(4) as pool:
        ended = list(pool.map(lambda question: run(question.input), QUESTIONS))
    wrong = [
        (question.input, output)
        for question, output in zip(QUESTIONS, ended, strict=True)
        if not states(output["answer"], question.expected["answer"])
        or output["sources"] != [question.expected["source"]]
    ]
    assert (len(ended), wrong) == (320, [])


def test_a_rollout_of_the_programs_own_model_is_scored(example):
    agent, score = PythonAgent(example("mail_agent.agent").run), example("checks").score
    trajectory = asyncio.run(art.rollout(agent, ROOM, art.OriginalPolicy(), reward=score))
    assert (trajectory.reward, trajectory.success, len(trajectory.model_calls)) == (1.0, True, 3)


def test_the_questions_are_what_the_script_writes(example, tmp_path, monkeypatch):
    monkeypatch.setattr(example("make_questions"), "HERE", tmp_path)
    example("make_questions").main()
    assert (tmp_path / "questions.jsonl").read_text() == (EXAMPLE / "questions.jsonl").read_text()


def test_every_kind_is_asked_equally_often_and_nothing_twice():
    kinds = Counter(question.metadata["kind"] for question in QUESTIONS)
    asked = {json.dumps(question.input, sort_keys=True) for question in QUESTIONS}
    assert (len(kinds), set(kinds.values())) == (10, {32})
    assert len(asked) == len({question.expected["answer"] for question in QUESTIONS}) == 320
    assert {date.fromisoformat(question.input["today"]) for question in QUESTIONS} == {date(2028, 1, 10)}


def test_no_thread_and_no_message_is_in_two_parts():
    parts = split(QUESTIONS, validation=24, test=60, seed=0)
    for key in (lambda one: one.metadata["content"], lambda one: one.expected["source"]):
        train, validation, test = ({key(one) for one in part} for part in (parts.train, parts.validation, parts.test))
        assert train.isdisjoint(validation | test)
        assert validation.isdisjoint(test)
    assert len({one.metadata["content"] for one in QUESTIONS}) < len(QUESTIONS)


@pytest.mark.parametrize(
    ("replies", "reward"),
    [
        (["It is in room F184."], 0.0),
        ([final("It is in room F184.", "m0590")], 0.0),
        ([final("I don't know.")], 0.05),
        ([search(), final("It is in room F184.", "m0590")], 0.05),
        ([search(), final("I don't know.")], 0.15),
        ([search(), read("m0597"), final("It is in room A100.", "m0597")], 0.05),
        ([search(), read(), final("It is in room A100.", "m0590")], 0.25),
        ([search(), read(), *[search()] * 4], 0.3),
        ([search(), read(), final("I cannot tell.")], 0.35),
        ([search(), read(), final("I do not know.", "m0590")], 0.55),
        ([search(), read(), "It is in room F184."], 0.8),
        ([search(), read(), final("It is in room F184.", "m0597")], 0.8),
        ([search(), read(), final("It is in room F184.", "m0590", "m0597")], 0.8),
        ([read(), final("It is in room F184.", "m0590")], 0.9),
        ([search(), read(), final("In f184.", "m0590")], 1.0),
        ([search(), read(), final("It is in room AF184.", "m0590")], 0.25),
        ([search(), read(), final("Room F184. " + "And so on. " * 10, "m0590")], 0.25),
    ],
)
def test_the_reward_of_what_was_done_and_said(example, replies, reward):
    trajectory = scripted(example, replies)
    assert (trajectory.reward, trajectory.success) == (reward, reward >= 0.9)


@pytest.mark.parametrize(
    ("text", "fact", "stated"),
    [
        ("It costs 1200 EUR.", "1,200", True),
        ("It costs 1,200.", "1,200", True),
        ("It costs 1,200.50 EUR.", "1,200", False),
        ("It costs 11,200 EUR.", "1,200", False),
        ("On June 9.", "9 June", True),
        ("On 9 June 2027.", "9 June", True),
        ("On 19 June.", "9 June", False),
        ("You stay at the cedar inn.", "Cedar Inn", True),
    ],
)
def test_when_an_answer_states_a_fact(example, text, fact, stated):
    assert example("checks").states(text, fact) is stated


RIGHT = [search(), read(), final("It is in room F184.", "m0590")]
LONGER = [search("Puffin"), *RIGHT]
WRONG = [search(), final("It is in room A100.", "m0597")]


@pytest.mark.parametrize(("combine", "rewards"), [("beside", [1.0, 0.99, 0.1]), ("gate", [1.0, 0.99, 0.0])])
def test_a_judge_compares_the_rollouts_of_a_question_by_the_rubric(example, monkeypatch, combine, rewards):
    monkeypatch.chdir(EXAMPLE)
    judge = Roles(grades=mail_judge(EXAMPLE / "questions.jsonl"))
    agent, policy = PythonAgent(example("mail_agent.agent").run), art.ScriptedPolicy([*RIGHT, *LONGER, *WRONG])
    with roles_server(judge) as server:
        options = JudgeOptions(judge=f"judge@{server.url}", rubric="@rubric.txt", check="checks:score", combine=combine)
        reward = make_reward(options.record("ruler"))
        gathering = art.gather(agent, [ROOM], policy, reward=reward, group_size=3, concurrency=1)
        (group,) = asyncio.run(gathering)
    assert group.rewards == rewards
    assert [trajectory.success for trajectory in group] == [True, True, False]
    assert (EXAMPLE / "rubric.txt").read_text().strip() in server.requests[0]["messages"][1]["content"]


@pytest.mark.parametrize(
    ("name", "model", "step"),
    [("email.toml", "smollm2-135m", (8, 6)), ("email_14b.toml", "Qwen/Qwen2.5-14B-Instruct", (12, 4))],
)
def test_what_the_toml_files_say_can_be_made(example, monkeypatch, name, model, step):
    monkeypatch.chdir(EXAMPLE)
    settings = read_toml(EXAMPLE / name, TrainFile)
    assert settings.model == model
    assert (settings.train.rollout.scenarios_per_step, settings.train.rollout.group_size) == step
    assert isinstance(make_agent(settings.agent), PythonAgent)
    assert make_reward(settings.reward) is example("checks").score
