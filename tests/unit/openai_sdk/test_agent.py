"""Programs as agents: what they are called with, and what is refused before the first rollout."""

from __future__ import annotations

import pytest

import art_core as art
from art_core.cli.references import make_agent
from art_core.loop.versions import adapters_of
from art_integrations.openai_sdk import PythonAgent

from . import programs
from .running import run

HERE = "tests.unit.openai_sdk.programs"


async def test_a_function_of_scenario_and_session_gets_both():
    trajectory = await run(programs.with_session, ["Noon"])
    assert trajectory.output == f"Noon in {trajectory.rollout_id}"


async def test_the_input_can_be_made_from_the_scenario():
    trajectory = await run(
        programs.sync_program,
        lambda messages, tools: messages[-1].text,
        {"city": "Rome"},
        input=lambda scenario: f"What time is it in {scenario.input['city']}?",
    )
    assert trajectory.output == "What time is it in Rome?"


def test_the_adapters_of_its_names_are_trained():
    agent = PythonAgent(programs.sync_program, train={"gpt-5-mini": "plans", "gpt-5-nano": "texts"})
    assert adapters_of(agent) == ("plans", "texts")


def test_an_agent_is_made_again_from_the_record_of_a_run():
    assert isinstance(make_agent({"function": f"{HERE}:sync_program", "train": ["gpt-5-mini"]}), PythonAgent)


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (lambda: None, {}, r"cannot be called with a scenario's input alone, nor with \(scenario, session\)"),
        (lambda a, b, c: None, {}, r"cannot be called with a scenario's input alone"),
        (lambda a, b: None, {"input": str}, r"input makes what a function of one argument is called with"),
        (7, {}, "agent 7 is a int, which cannot be called"),
        ("nowhere:f", {}, "agent 'nowhere:f': there is no module 'nowhere'"),
        (lambda a: None, {"train": []}, r"train must name models, nodes or agents, or be a function, got \[\]"),
    ],
)
def test_what_cannot_be_used_is_told(function, options, message):
    with pytest.raises(art.InputError, match=message):
        PythonAgent(function, **options)
