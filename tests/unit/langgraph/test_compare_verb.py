"""``art eval --compare``: the unchanged graph with its own model, and a provider's in its place, on the run's test scenarios."""

from __future__ import annotations

import json
import shutil

import pytest

from art_core.cli.main import main
from art_core.loop import run as loop_run
from art_core.trajectory import store
from tests.servers.chat_server import chat_server
from tests.unit.loop.fake import SCENARIOS, FakeBackend

from .bots import GRAPH

BOT = (
    GRAPH
    + """
from art_core.trajectory.trajectory import Reward


def score(trajectory, scenario):
    yes = trajectory.output["messages"][-1].content == "yes"
    return Reward(float(yes), success=yes)
"""
)
SMALL = ["--steps", "1", "--group-size", "2", "--scenarios-per-step", "3", "--validation", "0", "--test", "8"]
FAILING = []
"""What the service is to fail on."""


def answer(body):
    text = body["messages"][-1]["content"]
    return 500 if body["model"] in FAILING or text in FAILING else "yes"


@pytest.fixture(scope="module")
def service():
    with chat_server(answer) as server:
        yield server


@pytest.fixture(scope="module")
def trained(service, tmp_path_factory):
    """A run of a graph whose model in training is a coin."""
    place = tmp_path_factory.mktemp("trained")
    (place / "compared_bot.py").write_text(BOT)
    (place / "s.jsonl").write_text("".join(json.dumps(scenario.to_record()) + "\n" for scenario in SCENARIOS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BOT_URL", service.url)
        patch.syspath_prepend(str(place))
        patch.chdir(place)
        patch.setattr(loop_run, "open_backend", lambda model, config, adapters: FakeBackend())
        words = ["--scenarios", "s.jsonl", "--reward", "compared_bot:score", "--name", "r", "--quiet", *SMALL]
        assert main(["train", "langgraph", "compared_bot:graph", *words]) == 0
        yield place


@pytest.fixture
def run(trained, tmp_path, monkeypatch):
    shutil.copytree(trained / "runs", tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    FAILING.clear()
    return tmp_path / "runs" / "r"


def compare(*words):
    return main(["eval", "runs/r", *words])


def test_the_unchanged_agent_and_another_model_stand_beside_the_trained_one(run, service, capsys):
    price = ["--price", "gpt-5-mini=1,10", "--price", "trained=0,0"]
    assert compare("--compare", "original", "--compare", f"other@{service.url}", "--json", *price) == 0
    told = json.loads(capsys.readouterr().out)["compare"]
    own, original, other = told
    summary = json.loads((run / "summary.json").read_text())
    assert summary["compare"] == told
    assert {name: own[name] for name in ("success", "reward", "ci95", "n")} == {
        name: summary["after"][name] for name in ("success", "reward", "ci95", "n")
    }
    assert (original["subject"], original["success"], original["n"], original["missing"]) == ("original", 1.0, 8, 0)
    assert original["method"] == "wilson"
    assert original["tokens"] == {"input": 88, "output": 24}
    assert original["usd_per_1000_tasks"] == pytest.approx(1000 * (11 * 1 + 3 * 10) / 1e6)
    assert (own["usd_per_1000_tasks"], other["usd_per_1000_tasks"]) == (0.0, None)
    assert 0 < original["latency_s"]["p50"] <= original["latency_s"]["p95"]
    assert original["trained_minus_this"]["difference"] == pytest.approx(own["success"] - 1.0)
    assert other["trained_minus_this"]["n"] == 8


def test_the_rollouts_are_kept_and_the_report_shows_the_table(run, capsys):
    assert compare("--compare", "original") == 0
    shown = capsys.readouterr().out
    assert "The same test scenarios" in shown
    assert shown.split("answered by")[1].split()[:2] == ["trained", "original"]
    rollouts = list(store.read(run / "trajectories" / "eval-compare-original.jsonl"))
    assert [len(one.model_calls) for one in rollouts] == [1] * 8
    page = (run / "report.html").read_text()
    assert "What it replaces" in page
    assert "<td>original</td>" in page


def test_a_subject_is_measured_anew_and_the_others_stay(run, service, capsys):
    compare("--compare", "original")
    compare("--compare", f"other@{service.url}")
    compare("--compare", "original", "--price", "gpt-5-mini=1,10")
    found = json.loads((run / "summary.json").read_text())["compare"]
    assert [entry["subject"] for entry in found] == ["trained", "original", f"other@{service.url}"]
    assert found[1]["usd_per_1000_tasks"] == pytest.approx(0.041)


def test_what_fails_is_missing_and_counted(run, capsys):
    scenarios = [json.loads(line) for line in (run / "scenarios" / "test.jsonl").read_text().splitlines()]
    FAILING.append(scenarios[0]["input"])
    compare("--compare", "original", "--json")
    original = json.loads(capsys.readouterr().out)["compare"][1]
    assert (original["n"], original["missing"], original["failed"], original["failed_calls"]) == (7, 1, 1, 1)


def test_a_subject_that_never_answers_is_an_error_and_no_figure(run, capsys):
    FAILING.append("gpt-5-mini")
    assert compare("--compare", "original") == 1
    assert "none of the 8 rollouts with original has a score; the first reason" in capsys.readouterr().err
    assert [entry["subject"] for entry in json.loads((run / "summary.json").read_text())["compare"]] == ["trained"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--compare", "nobody/m"], "is not of the form provider/model"),
        (["--compare", "trained"], "the run's own adapter is always part of the comparison"),
        (["--compare", "original", "--split", "validation"], "leave --checkpoint and --split out"),
        (["--compare", "original", "--price", "x"], "price 'x' is not of the form MODEL=IN,OUT"),
        (["--price", "x=1,2"], "--price x=1,2 has no effect without --compare"),
    ],
)
def test_what_cannot_be_compared_is_told(run, words, message, capsys):
    assert compare(*words) == 2
    assert message in capsys.readouterr().err


def test_scenarios_that_the_graph_does_not_take_any_more_are_told_and_nothing_is_changed(run, capsys):
    held_out, before = run / "scenarios" / "test.jsonl", (run / "summary.json").read_bytes()
    first, *others = [json.loads(line) for line in held_out.read_text().splitlines()]
    changed = [{**first, "input": {"text": "hello"}}, *others]
    held_out.write_text("".join(json.dumps(record) + "\n" for record in changed))
    assert compare("--compare", "original") == 2
    assert (
        f"scenario '{first['id']}' has the field 'text', which the graph's input does not have"
        in capsys.readouterr().err
    )
    assert (run / "summary.json").read_bytes() == before


def test_a_run_without_a_last_evaluation_is_told(run, capsys):
    (run / "summary.json").unlink()
    assert compare("--compare", "original") == 2
    assert "has no evaluation of its adapter on test scenarios to compare with" in capsys.readouterr().err
