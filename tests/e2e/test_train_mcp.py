"""``art train mcp`` from end to end: a real server process, a tiny random model, real sampling and training."""

import json
import sys
import tomllib
from pathlib import Path

import pytest

from art_core.cli.main import main
from art_core.models.lora import read_adapter
from tests.tiny import save_tiny

SERVER = f"{sys.executable} {Path(__file__).parents[1] / 'servers' / 'rich_server.py'}"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(save_tiny(tmp_path_factory.mktemp("model"), context=8192))


@pytest.fixture
def train(model, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*words):
        small = {
            "--model": model,
            **({} if "--scenarios" in words else {"--generate": "60"}),
            "--test": "6",
            "--validation": "3",
            "--scenarios-per-step": "2",
            "--max-tokens": "8",
        }
        chosen = [word for name, value in small.items() if name not in words for word in (name, value)]
        code = main(["train", "mcp", SERVER, "--tools", "add", "get", *chosen, *words])
        return code, *capsys.readouterr()

    return run


def test_a_run_leaves_everything_it_promises(train, tmp_path):
    code, out, _ = train("--steps", "2", "--name", "r", "--json")
    summary, run = json.loads(out), tmp_path / "runs" / "r"
    assert code == 0
    assert summary["steps"] == 2
    assert summary["before"]["n"] == summary["after"]["n"] == 6
    assert summary["ledger"]["rollouts"]["sampled"] == 32
    assert json.loads((run / "summary.json").read_text()) == summary
    assert [json.loads(line)["step"] for line in (run / "metrics.jsonl").open() if '"train"' in line] == [1, 2]
    assert read_adapter(run / "checkpoints" / "step-000002").factors
    assert "<svg" in (run / "report.html").read_text()


def test_a_run_without_held_out_scenarios_trains_and_says_so(train):
    code, out, _ = train("--steps", "1", "--name", "r", "--validation", "0", "--test", "0", "--json")
    summary = json.loads(out)
    assert code == 0
    assert (summary["steps"], summary["before"], summary["gain"]) == (1, None, None)


def test_a_person_sees_tools_progress_ledger_and_the_table(train):
    code, out, _ = train("--steps", "1", "--name", "r")
    assert code == 0
    for text in (
        "Tools as discovered",
        "add",
        "step 1/1",
        "sampled",
        "before",
        "after",
        "paired difference",
        "report.html",
    ):
        assert text in out


def test_a_deterministic_run_keeps_its_tools_answers_and_can_be_resumed(train, capsys, tmp_path):
    code, out, _ = train("--steps", "1", "--name", "r", "--deterministic", "--max-turns", "2")
    assert code == 0
    assert "every completion is computed as if it were alone" in out
    run = tmp_path / "runs" / "r"
    record = tomllib.loads((run / "run.toml").read_text())
    assert record["config"]["deterministic"] is True
    assert "max_time" not in record["config"]
    assert record["environment"]["computing"].keys() == {"device", "precision", "threads", "lanes"}
    assert record["environment"]["computing"]["precision"] == "float32"
    assert '"discovered"' in (run / "tool-answers.jsonl").read_text()
    assert main(["train", "--resume", str(run), "--steps", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 2


def test_a_run_can_be_resumed_from_the_command_line(train, capsys, tmp_path):
    train("--steps", "1", "--name", "r")
    assert main(["train", "--resume", str(tmp_path / "runs" / "r"), "--steps", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 2


def test_a_finished_run_can_be_measured_and_reported_again(train, capsys, tmp_path):
    train("--steps", "1", "--name", "r")
    run = str(tmp_path / "runs" / "r")
    assert main(["eval", run, "--checkpoint", "base", "--split", "validation", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n"] == 3
    assert main(["report", run]) == 0


def test_worked_examples_come_from_training_scenarios_only(train, tmp_path):
    train("--steps", "1", "--name", "r")
    run = tmp_path / "runs" / "r"
    held_out = (run / "scenarios" / "test.jsonl").read_text() + (run / "scenarios" / "validation.jsonl").read_text()
    first = json.loads((run / "trajectories" / "eval-before.jsonl").read_text().splitlines()[0])
    shown = [m["content"] for t in first["turns"] for m in t["messages"] if m["role"] == "user"]
    assert len(shown) == 5
    assert all(request not in held_out for request in shown[:-1])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--model", "nope"], "unknown model 'nope'"),
        (["--scenarios", "missing.jsonl"], "cannot read 'missing.jsonl'"),
        (["--reward", "no_such_module:f"], "no module 'no_such_module'"),
        (["--learning-rte", "1"], "unknown option '--learning-rte'; did you mean '--learning-rate'?"),
        (["--exclude-tools", "nothing"], "tool 'nothing' is not offered"),
        (["--max-time", "soon"], "duration 'soon' is not understood"),
        (["--deterministic", "--max-time", "1m"], "max_time = 60 s would let the clock decide"),
        (["--examples", "-1"], "--examples -1 must be 0 or more"),
        (["--env", "X"], "--env 'X' is not of the form NAME=VALUE"),
        (["--out", "/proc/nowhere"], "/proc/nowhere"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_bad_input_is_one_sentence_and_code_2(train, tmp_path, words, sentence):
    code, out, err = train("--steps", "1", *words)
    assert code == 2
    assert sentence in err
    assert err.count("\n") == 1
    assert "Traceback" not in out + err
    assert not (tmp_path / "runs").exists()


def test_a_server_that_does_not_exist_is_named(model, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "mcp", "no-such-server --x", "--model", model]) == 2
    assert "no-such-server --x" in capsys.readouterr().err


def test_a_server_that_dies_is_shown_with_its_last_words(model, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "mcp", f"{SERVER} --say 'no database' --die 3", "--model", model]) == 2
    err = capsys.readouterr().err
    assert "exit code 3" in err
    assert "no database" in err


@pytest.mark.parametrize(("body", "sentence"), [("raise KeyError('x')", "KeyError"), ("return float('nan')", "nan")])
def test_a_broken_reward_is_found_before_the_model_is_loaded(train, tmp_path, body, sentence):
    (tmp_path / "broken_reward.py").write_text(f"def score(trajectory, scenario):\n    {body}\n")
    sys.modules.pop("broken_reward", None)
    code, _, err = train("--steps", "1", "--reward", "broken_reward:score")
    assert code == 2
    assert "broken_reward:score" in err or "score" in err
    assert sentence in err
    assert not (tmp_path / "runs").exists()


def test_a_broken_scenarios_file_names_the_line(train, tmp_path):
    (tmp_path / "s.jsonl").write_text('{"input": "a"}\n{"input": \n')
    code, _, err = train("--scenarios", "s.jsonl")
    assert code == 2
    assert "s.jsonl, line 2 is not JSON" in err
