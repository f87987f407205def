"""``art train langgraph`` and the agent kind ``langgraph``."""

from __future__ import annotations

import pytest

import art_core as art
from art_core.cli.references import make_agent
from art_core.errors import InputError
from art_integrations.langgraph.cli import GraphOptions, train_langgraph
from art_integrations.langgraph.plugin import make_agent as from_options

from .running import asked

GRAPH = "tests.unit.langgraph.graphs:assistant"


def test_an_agent_is_made_again_from_the_record_of_a_run():
    assert callable(make_agent({"kind": "langgraph", "graph": GRAPH, "steps": 7, "train": ["model"]}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"graph": GRAPH, "stepz": 3}, "agent kind 'langgraph' does not take these options: .*stepz"),
        ({"graph": GRAPH, "steps": 0}, "steps must be a whole number of at least 1, got 0"),
        ({"graph": GRAPH, "input": "nowhere:f"}, "input 'nowhere:f': there is no module 'nowhere'"),
        ({"graph": GRAPH, "configurable": 3}, "configurable must give values by name, got 3"),
        (
            {"graph": GRAPH, "context": {"openai_api_key": "s"}},
            "context 'openai_api_key' looks like a secret, which would",
        ),
        ({"graph": GRAPH, "train": []}, r"train must name models, nodes or agents, or be a function, got \[\]"),
    ],
)
def test_options_that_cannot_be_used_are_told(options, message):
    with pytest.raises(InputError, match=message):
        from_options(options)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "a graph needs --scenarios FILE.jsonl"),
        ({"scenarios": "s.jsonl"}, "a graph needs --reward module:function"),
        ({"scenarios": "s.jsonl", "reward": "no:f"}, "reward 'no:f': there is no module 'no'"),
    ],
)
def test_what_is_missing_is_told_before_anything_is_loaded(given, message):
    with pytest.raises(InputError, match=message):
        train_langgraph(GRAPH, **given)


def test_every_option_of_the_graph_has_a_default():
    assert GraphOptions() == GraphOptions(graph_steps=100, share=False)


def test_values_on_the_command_line_are_json_or_text():
    options = GraphOptions(configurable=("user=ada", "limit=3", 'order="7"'), context=("deep=true", "url=a=b"))
    record = options.record(GRAPH)
    assert record["configurable"] == {"user": "ada", "limit": 3, "order": "7"}
    assert record["context"] == {"deep": True, "url": "a=b"}


def test_a_value_without_a_name_is_told():
    with pytest.raises(
        InputError, match="--configurable 'ada' does not give a value; write NAME=VALUE, such as user_id=ada"
    ):
        GraphOptions(configurable=("ada",)).record(GRAPH)


async def test_the_graph_finds_what_the_record_of_a_run_says():
    agent = make_agent(
        {
            "kind": "langgraph",
            "graph": "tests.unit.langgraph.graphs:greeter",
            "configurable": {"user": "Ada"},
            "context": {"tone": "dry"},
        }
    )
    trajectory = await art.rollout(agent, art.Scenario("s", "Hello."), art.ScriptedPolicy(["Hello, Ada."]))
    assert asked(trajectory) == [[("user", "Ada, dry: Hello.")]]


def test_several_adapters_come_back_from_the_record_of_a_run():
    agent = make_agent({"kind": "langgraph", "graph": GRAPH, "train": {"model": "plans", "writer": "texts"}})
    assert agent.adapters == ("plans", "texts")


def test_every_name_gets_an_adapter_or_none_does():
    with pytest.raises(
        InputError, match="--train gives 'planner=plans' an adapter and 'writer' none; write writer=ADAPTER too"
    ):
        train_langgraph(GRAPH, scenarios="s.jsonl", reward="no:f", run=GraphOptions(train=("planner=plans", "writer")))


def test_names_with_adapters_are_read_as_such():
    options = GraphOptions(train=("planner=plans=", "writer=texts"))
    with pytest.raises(InputError, match="train gives 'planner' the adapter 'plans='"):
        train_langgraph(GRAPH, scenarios="s.jsonl", reward="tests.unit.loop.fake:reward", run=options)
