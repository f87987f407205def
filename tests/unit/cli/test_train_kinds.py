"""``art train FILE.toml`` and the verbs for agents of the user's own, with a tiny random model that really samples and learns."""

from __future__ import annotations

import json

import pytest

from art_core.cli import train as train_verb
from art_core.cli.main import main
from art_core.cli.options import TrainOptions
from art_core.errors import InputError
from art_core.trajectory import store
from tests.tiny import save_tiny

PROGRAM = """
from openai import AsyncOpenAI

async def run(question):
    client = AsyncOpenAI(base_url="http://127.0.0.1:9/v1", api_key="none")
    asked = {"model": "gpt-5-mini", "messages": [{"role": "user", "content": question}]}
    return (await client.chat.completions.create(**asked)).choices[0].message.content

def short(trajectory, scenario):
    ids = trajectory.turns[0].completion_ids
    return sum(token < 128 for token in ids) / len(ids)

def shout(scenario):
    return scenario.input.upper()
"""
GRAPH = """
from tests.unit.langgraph.graphs import chatbot

graph = chatbot()
"""
HOLDER = """
from pathlib import Path

class Holder:
    def __init__(self):
        self.over = ["measuring over. ", "training over. "]

    async def __call__(self, scenario, session):
        await session.chat([{"role": "user", "content": scenario.input}])

    async def close(self):
        with Path("closed").open("a") as file:
            file.write(self.over.pop())

agent = Holder()

def score(trajectory, scenario):
    return float(len(trajectory.turns))
"""
SMALL = {"group_size": 2, "scenarios_per_step": 2, "max_tokens": 6, "validation": 2, "test": 2, "rank": 2, "steps": 1}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    save_tiny(tmp_path / "model")
    (tmp_path / "kinds_program.py").write_text(PROGRAM)
    (tmp_path / "kinds_graph.py").write_text(GRAPH)
    lines = (json.dumps({"id": f"s{n}", "input": f"question {n}"}) + "\n" for n in range(10))
    (tmp_path / "s.jsonl").write_text("".join(lines))
    return tmp_path


def options(**more):
    return TrainOptions(model="model", name="r", quiet=True, precision="float32", **SMALL, **more)


def asked(here):
    """What the rollouts of the first step were asked, and by whom."""
    first = next(store.read(here / "runs/r/trajectories/step-000001.jsonl"))
    turn = first.turns[0]
    return first.scenario.input, turn.messages[-1].text, turn.metadata["call"]["provider"]


@pytest.mark.parametrize(
    ("agent", "provider"),
    [
        ('kind = "python"\nfunction = "kinds_program:run"', "AsyncOpenAI"),
        ('function = "kinds_program:run"\ntrain = ["gpt-5-mini"]', "AsyncOpenAI"),
        ('kind = "langgraph"\ngraph = "kinds_graph:graph"', "ChatOpenAI"),
    ],
)
def test_a_file_names_the_kind_of_agent(here, agent, provider):
    text = f'scenarios = "s.jsonl"\nreward.function = "kinds_program:short"\n[agent]\n{agent}\n'
    (here / "run.toml").write_text(text)
    assert train_verb.train_file(here / "run.toml", options=options()) == 0
    question, heard, by = asked(here)
    assert (heard, by) == (question, provider)
    assert json.loads((here / "runs/r/summary.json").read_text())["steps"] == 1


def test_a_program_is_trained_with_an_input_of_its_own_and_goes_on(here):
    how = train_verb.ProgramOptions(input="kinds_program:shout")
    given = {"scenarios": here / "s.jsonl", "reward": "kinds_program:short"}
    assert train_verb.train_python("kinds_program:run", **given, run=how, options=options()) == 0
    question, heard, _ = asked(here)
    assert heard == question.upper()
    assert train_verb.train_file(options=TrainOptions(resume="runs/r", steps=2, quiet=True)) == 0
    assert json.loads((here / "runs/r/summary.json").read_text())["steps"] == 2


def test_a_run_that_is_measured_again_lets_go_of_its_agent(here, capsys):
    (here / "kinds_holder.py").write_text(HOLDER)
    given = {"scenarios": here / "s.jsonl", "reward": "kinds_holder:score"}
    assert train_verb.train_python("kinds_holder:agent", **given, options=options()) == 0
    assert main(["eval", "runs/r", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["n"] == 2
    assert (here / "closed").read_text() == "training over. measuring over. "


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "a program needs --scenarios FILE.jsonl"),
        ({"scenarios": "s.jsonl"}, "a program needs --reward module:function"),
        ({"options": TrainOptions(resume="runs/r")}, "a run goes on with: art train --resume runs/r"),
    ],
)
def test_what_is_missing_is_told_before_anything_is_loaded(given, message):
    with pytest.raises(InputError, match=message):
        train_verb.train_python("nowhere:run", **given)
