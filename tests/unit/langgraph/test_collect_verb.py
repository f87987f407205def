"""``art collect langgraph``: the unchanged graph and its own model, over real HTTP, kept and scored."""

from __future__ import annotations

import json

import pytest

from art_core.cli.main import main
from art_core.loop.collect import collected
from tests.servers.chat_server import chat_server

from .bots import GRAPH

BOT = (
    GRAPH
    + """

def says_noon(trajectory, scenario):
    return float(trajectory.messages[-1].text == "Noon.")
"""
)

TOOL = """
from langchain_core.tools import tool

@tool
def refund(number: str) -> str:
    "Pay an order back."
    return "done"

model ="""


@pytest.fixture
def bot(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"bot_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(BOT)
    (tmp_path / "q.jsonl").write_text("".join(json.dumps({"input": f"Time {n}?"}) + "\n" for n in range(3)))
    with chat_server(lambda body: 500 if body["messages"][-1]["content"] == "Time 2?" else "Noon.") as server:
        monkeypatch.setenv("BOT_URL", server.url)
        yield name, server


def collect(name, *more):
    words = ["collect", "langgraph", f"{name}:graph", "--scenarios", "q.jsonl", "--reward", f"{name}:says_noon"]
    return main([*words, "--out", "c", *more])


def test_the_graph_runs_with_its_own_model_and_what_it_said_is_kept(bot, tmp_path, capsys):
    name, server = bot
    assert collect(name, "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["rollouts"], summary["failed"], summary["reward"], summary["model"]) == (3, 1, 1.0, "original")
    assert (summary["tokens"], summary["failed_calls"]) == ({"input": 22, "output": 6}, 1)
    calls = [call.reply.text for one in collected(tmp_path / "c") for call in one.model_calls if call.reply]
    assert calls == ["Noon.", "Noon."]
    assert len(server.requests) == 3


def test_collecting_again_asks_only_for_what_failed(bot, capsys):
    name, server = bot
    collect(name)
    assert "1 failed" in capsys.readouterr().out
    collect(name)
    assert "2 rollouts are there and are kept; 1 failed and are made again" in capsys.readouterr().out
    assert [body["messages"][-1]["content"] for body in server.requests[3:]] == ["Time 2?"]


def test_a_providers_model_can_answer_in_the_place_of_the_graphs_own(bot, tmp_path, capsys):
    name, server = bot
    assert collect(name, "--model", f"other@{server.url}", "--json") == 0
    assert [body["model"] for body in server.requests].count("other") == len(server.requests)
    turns = [turn for one in collected(tmp_path / "c") for turn in one.turns]
    assert [turn.reply.text for turn in turns] == ["Noon.", "Noon."]


def test_a_missing_key_is_told_before_anything_is_made(bot, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    assert collect(bot[0], "--model", "groq/llama") == 2
    assert "set GROQ_API_KEY in the environment" in capsys.readouterr().err
    assert not (tmp_path / "c").exists()


def test_only_the_first_scenarios_may_be_taken(bot, tmp_path):
    collect(bot[0], "--limit", "2", "--concurrency", "1")
    assert [one.scenario.input for one in collected(tmp_path / "c")] == ["Time 0?", "Time 1?"]


def test_a_tool_that_can_do_harm_is_told_before_anything_is_made(bot, tmp_path, capsys):
    name = bot[0]
    (tmp_path / f"{name}.py").write_text(
        BOT.replace("model =", TOOL).replace("model.invoke", "model.bind_tools([refund]).invoke")
    )
    assert collect(name) == 2
    assert "tool 'refund'" in capsys.readouterr().err
    assert not (tmp_path / "c").exists()
    assert collect(name, "--allow-destructive") == 0
    assert "tools found in the agent: refund (real)" in capsys.readouterr().out
