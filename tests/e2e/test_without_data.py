"""Training without data, from end to end: the language models are programs behind real HTTP, the model that learns is tiny and random."""

from __future__ import annotations

import itertools
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

from art_core.cli.main import main
from art_core.scenario import load_scenarios
from tests.servers.chat_server import call
from tests.servers.roles import Roles, roles_server, said
from tests.tiny import save_tiny

SERVER = f"{sys.executable} {Path(__file__).parents[1] / 'servers' / 'rich_server.py'}"
OPTIONS = {
    "validation": 3,
    "test": 6,
    "scenarios-per-step": 2,
    "group-size": 3,
    "max-tokens": 8,
    "steps": 1,
    "generate": 20,
    "name": "r",
}
SMALL = ["--json", *(word for name, value in OPTIONS.items() for word in (f"--{name}", str(value)))]


def sums(wanted, prompt):
    """So many sums that were not asked for yet."""
    known = set(re.findall(r"add (\d+) and", prompt))
    fresh = (n for n in itertools.count(100) if str(n) not in known)
    numbers = itertools.islice(fresh, wanted)
    return [{"request": f"Please add {n} and {n + 7}.", "difficulty": n % 5 + 1, "tools": ["add"]} for n in numbers]


def adds(messages):
    if messages[-1]["role"] == "tool":
        return f"It is {messages[-1]['content']}."
    a, b = re.findall(r"\d+", said(messages, "user")[-1])
    return call("add", a=int(a), b=int(b))


def brief_is_better(context, attempt):
    return max(0.0, 1 - len(attempt) / 2_000)


RULED = [SERVER, "--reward", "ruler", "--judge", "BIG"]
ROLES = Roles(writes=sums, does=adds, grades=brief_is_better, system="Answer in one word.")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(save_tiny(tmp_path_factory.mktemp("model"), context=8192))


@pytest.fixture
def art(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with roles_server(ROLES) as server:

        def run(*words):
            code = main([f"m@{server.url}" if word == "BIG" else word for word in words])
            return code, *capsys.readouterr()

        run.server = server
        yield run


def test_a_server_and_a_judge_are_enough(art, model, tmp_path):
    server = [SERVER, "--tools", "add", "get"]
    code, out, err = art("train", "mcp", *server, "--reward", "ruler", "--judge", "BIG", "--model", model, *SMALL)
    assert code == 0, err
    summary = json.loads(out)
    assert (summary["steps"], summary["before"]["n"], summary["after"]["n"]) == (1, 6, 6)
    assert summary["judge"]["calls"] > 0
    kept = load_scenarios(tmp_path / "scenarios-rich_server.jsonl")
    assert len(kept) == 20
    assert kept[0].metadata["dry_run"]["calls"] == [{"name": "add", "arguments": {"a": 100, "b": 107}}]
    record = tomllib.loads((tmp_path / "runs" / "r" / "run.toml").read_text())
    assert record["written"]["file"] == "scenarios-rich_server.jsonl"
    assert (record["written"]["author"]["calls"], record["written"]["grader"]["groups"]) == (2, 20)
    examples = record["agent"]["examples"]
    assert [(one["tool"], one["request"].startswith("Please add")) for one in examples] == [("add", True)] * 4


def test_what_the_reference_did_can_be_learnt_from_first(art, model, tmp_path):
    words = ["train", "mcp", SERVER, "--tools", "add", "--reward", "ruler", "--judge", "BIG", "--model", model]
    code, out, err = art(*words, "--imitate", "--max-turns", "2", *SMALL)
    assert code == 0, err
    warm = json.loads(out)["warm_start"]
    assert (warm["data"]["rollouts"], warm["data"]["used"], warm["data"]["held_out"]) == (20, 11, 9)
    assert "examples" not in tomllib.loads((tmp_path / "runs" / "r" / "run.toml").read_text())["agent"]


def test_scenarios_alone_are_a_file_to_edit_and_to_train_on(art, model, tmp_path):
    code, out, err = art("scenarios", "mcp", SERVER, "--author", "BIG", "--generate", "12", "--json")
    assert code == 0, err
    told = json.loads(out)
    assert (told["file"], told["scenarios"], told["refused"]) == ("scenarios-rich_server.jsonl", 12, 0)
    prompt = art.server.requests[0]["messages"][-1]["content"]
    assert "What is there; ask about nothing else:\n" in prompt
    code, out, err = art(
        "scenarios", "mcp", SERVER, "--author", "BIG", "--generate", "14", "--reference", "none", "--json"
    )
    assert json.loads(out)["scenarios"] == 14


def test_a_task_in_words_is_enough_and_a_hosted_model_stands_beside(art, model, tmp_path):
    words = ["train", "task", "Add two numbers", "--judge", "BIG", "--reference", "none", "--model", model]
    code, out, err = art(*words, "--compare", "BIG", "--price", f"m@{art.server.url}=1,2", *SMALL)
    assert code == 0, err
    summary = json.loads(out)
    assert [one["subject"] for one in summary["compare"]] == ["trained", f"m@{art.server.url}"]
    assert summary["compare"][1]["usd_per_1000_tasks"] == pytest.approx(0.017)
    assert (tmp_path / "task-add-two-numbers.system.txt").read_text() == "Answer in one word.\n"
    assert len(load_scenarios(tmp_path / "task-add-two-numbers.jsonl")) == 20
    agent = tomllib.loads((tmp_path / "runs" / "r" / "run.toml").read_text())["agent"]
    assert agent["options"] == {"system": "Answer in one word."}
    code, out, err = art("eval", "runs/r", "--checkpoint", "base", "--json")
    assert (code, json.loads(out)["n"]) == (0, 6)


def test_an_edited_system_text_is_used(art, model, tmp_path):
    (tmp_path / "t.system.txt").write_text("Answer in two words.\n")
    words = ["train", "task", "Add two numbers", "--judge", "BIG", "--reference", "none", "--written", "t.jsonl"]
    code, _, err = art(*words, "--model", model, *SMALL)
    assert code == 0, err
    agent = tomllib.loads((tmp_path / "runs" / "r" / "run.toml").read_text())["agent"]
    assert agent["options"] == {"system": "Answer in two words."}


def test_the_dry_run_is_paid_from_the_judges_budget(art, model, tmp_path):
    words = ["train", "task", "Add two numbers", "--judge", "BIG", "--judge-price", "1,1", "--model", model]
    code, _, err = art(*words, "--judge-budget", "1", *SMALL)
    assert code == 0, err
    record = tomllib.loads((tmp_path / "runs" / "r" / "run.toml").read_text())
    spent = 20 * (11 + 3) / 1e6
    assert record["written"]["grader"]["usd"] == pytest.approx(spent)
    assert record["reward"]["options"]["judge_budget"] == pytest.approx(1 - spent)


def test_a_budget_that_the_dry_run_uses_up_ends_before_a_run_begins(art, model, tmp_path):
    words = ["train", "task", "Add two numbers", "--judge", "BIG", "--judge-price", "1000,1000", "--model", model]
    code, _, err = art(*words, "--judge-budget", "0.5", *SMALL)
    assert code == 2
    assert "20 could not be tried (it has no grade: judge: the judge's budget of 0.5 USD is used up)" in err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "mcp", SERVER, "--author", "BIG"], "--reward ruler needs --judge"),
        (["train", "mcp", SERVER, "--reference", "BIG"], "--reference has no effect without an author"),
        (["train", "mcp", SERVER, "--imitate"], "--imitate has no effect without an author"),
        (["train", "mcp", SERVER, "--scenarios", "s.jsonl", "--about", "x"], "--about has no effect with --scenarios"),
        (["train", "task", "x"], "a task in words needs --judge"),
        (["train", "task", "x", "--judge", "BIG", "--imitate", "--reference", "none"], "--imitate needs a reference"),
        (["train", "task", "x", "--judge", "BIG", "--imitate", "--warm-start", "r"], "--imitate has no effect with"),
        (["train", "mcp", *RULED, "--imitate", "--reference", "none"], "--imitate needs a reference"),
        (["train", "task", " ", "--judge", "BIG"], "say in a few words what the assistant is for"),
        (
            ["train", "task", "x", "--judge", "BIG", "--author-price", "free"],
            "author price 'free' is not of the form IN,OUT",
        ),
        (["train", "task", "x", "--judge", "BIG", "--author-budget", "1"], "needs price"),
        (["train", "task", "x", "--judge", "BIG", "--price", "m=1,2"], "has no effect without --compare"),
        (["scenarios", "task", "x"], "say who writes the scenarios"),
        (["scenarios", "langgraph", "graph:graph", "--author", "BIG"], "say what the graph is for"),
    ],
)
def test_what_is_missing_is_told_before_anything_is_asked(art, words, message):
    code, _, err = art(*words)
    assert code == 2
    assert message in err
    assert art.server.requests == []
