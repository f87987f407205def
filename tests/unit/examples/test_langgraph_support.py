"""The example ``examples/langgraph_support``: the unchanged agent, the stand-in for its hosted model, the questions, the reward."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

import art_core as art
from art_core.trajectory.trajectory import ModelCall
from art_integrations.langgraph import LangGraphAgent

from .serving import EXAMPLES, serving

EXAMPLE = EXAMPLES / "langgraph_support"


@pytest.fixture(scope="module")
def example():
    """Imports a module of the example, whose graph talks to the stand-in."""
    with serving("langgraph_support") as imported:
        yield imported


def production(example, questions):
    """The final messages of the agent as it runs without this project, with its own model (the stand-in)."""
    given = [{"messages": [{"role": "user", "content": question}]} for question in questions]
    return [state["messages"] for state in example("support_bot.graph").graph.batch(given)]


def scripted(example, replies, expected):
    """The reward of a rollout in which the agents say these things."""
    agent, score = LangGraphAgent(example("support_bot.graph").graph), example("checks").score
    scenario = art.Scenario("s", "A question", expected)
    return asyncio.run(art.rollout(agent, scenario, art.ScriptedPolicy(replies), reward=score))


def test_the_agents_code_has_no_word_of_this_project():
    words = {word for file in (EXAMPLE / "support_bot").glob("*.py") for word in re.findall(r"\w+", file.read_text())}
    assert not {word for word in words if word in ("art", "reward", "rollout", "scenario") or word.startswith("art_")}


def test_the_stand_in_answers_every_kind_of_question_rightly(example):
    asked = {question.metadata["kind"]: question for question in art.load_scenarios(EXAMPLE / "questions.jsonl")}
    ended = production(example, [question.input for question in asked.values()])
    wrong = [
        (question.input, messages[-1].content)
        for question, messages in zip(asked.values(), ended, strict=True)
        if not example("checks").contains(messages[-1].content, question.expected["answer"])
    ]
    assert (len(asked), wrong) == (8, [])


def test_a_question_about_returns_is_put_to_the_specialist(example):
    terms = example("support_bot.db").product("walking boots")
    ((_, call, result, answer),) = production(example, ["What is the fee for sending back the walking boots?"])
    assert (call.tool_calls[0]["name"], result.name) == ("ask_returns", "ask_returns")
    assert (
        result.content
        == answer.content
        == f"It can be returned within {terms['return_days']} days for {terms['return_fee']:.2f} EUR."
    )


def test_what_the_agents_own_model_says_is_scored_as_well(example):
    call = art.ToolCall(id="c", name="find_order", arguments='{"number": 2774}')
    reply, tools = art.Message(role="assistant", tool_calls=(call,)), (art.ToolSpec(name="find_order"),)
    trajectory = art.Trajectory(scenario=art.Scenario("s", "?"), rollout_id="r")
    trajectory.model_calls.append(ModelCall(messages=(), reply=reply, tools=tools))
    assert example("checks").calls_of(trajectory) == [("find_order", {"number": 2774})]


def test_questions_and_data_are_what_the_script_writes(example, tmp_path, monkeypatch):
    (tmp_path / "support_bot").mkdir()
    monkeypatch.setattr(example("make_questions"), "HERE", tmp_path)
    example("make_questions").main()
    for name in ("questions.jsonl", "support_bot/shop.sql"):
        assert (tmp_path / name).read_text() == (EXAMPLE / name).read_text()


def test_no_two_questions_ask_the_same():
    questions = [json.loads(line) for line in (EXAMPLE / "questions.jsonl").read_text().splitlines()]
    asked = {(str(q["expected"]["calls"]), q["metadata"]["kind"]) for q in questions}
    assert len(questions) == len(asked) == 300


ORDER = {
    "calls": [{"name": "find_order", "arguments": {"number": 2774}}],
    "answer": "28 July",
}


@pytest.mark.parametrize(
    ("replies", "reward"),
    [
        (["It arrives on 28 July."], 0.0),
        ([[("find_product", {"name": "order"})], "28 July"], 0.0),
        ([[("find_order", {"number": 1})], "28 July"], 0.2),
        ([[("find_order", {"number": 2774})], "It is delivered."], 0.5),
        ([[("find_order", {"number": 2774})], "It arrives on 28 July 2027."], 1.0),
        ([[("find_order", {"number": 2774})], "It arrives on 128 July."], 0.5),
        ([[("find_order", {"number": 2774})], "<tool_response>arrives 28 July</tool_response>"], 0.5),
        ([[("find_order", {"number": 2774})], "It arrives on 28 July."], 1.0),
    ],
)
def test_the_reward_of_an_answer_about_an_order(example, replies, reward):
    trajectory = scripted(example, replies, ORDER)
    assert (trajectory.reward, trajectory.success) == (reward, reward == 1.0)


RETURNS = {
    "calls": [{"name": "ask_returns"}, {"name": "return_terms", "arguments": {"product": "walking boots"}}],
    "answer": "30",
}


@pytest.mark.parametrize(
    ("replies", "reward"),
    [
        ([[("return_terms", {"product": "walking boots"})], "30 days."], 0.0),
        ([[("ask_returns", {"question": "q"})], "30 days.", "30 days."], 0.1),
        ([[("ask_returns", {"question": "q"})], [("return_terms", {"product": "Walking boots"})], "30", "30.50"], 0.5),
        ([[("ask_returns", {"question": "q"})], [("return_terms", {"product": "Walking boots"})], "30", "30."], 1.0),
    ],
)
def test_the_reward_of_an_answer_about_returns(example, replies, reward):
    assert scripted(example, replies, RETURNS).reward == reward
