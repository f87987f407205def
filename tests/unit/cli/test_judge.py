"""``art judge``: stored rollouts get new scores in a file of their own, and a judge is measured."""

from __future__ import annotations

import json

import pytest

from art_core.cli.main import main
from art_core.loop.run import atrain
from tests.servers.chat_server import chat_server
from tests.unit.judging.rollouts import by_words
from tests.unit.loop.fake import SCENARIOS, FakeBackend, agent, config, quiet, reward

YES = by_words({"[assistant]\nyes": 1.0, "[assistant]\nno": 0.0})


@pytest.fixture
async def run(tmp_path):
    done = await atrain(agent, SCENARIOS, reward, backend=FakeBackend(), config=config(tmp_path), progress=quiet())
    return done.run_dir


@pytest.fixture
def service():
    with chat_server(lambda body: YES(body["messages"])) as server:
        yield server


def test_the_newest_step_is_judged_and_compared_with_its_rewards(run, service, capsys):
    before = (run / "trajectories" / "step-000004.jsonl").read_bytes()
    assert main(["judge", str(run), "--judge", f"m@{service.url}", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["rollouts"], told["scored"]) == (12, 12)
    lines = [json.loads(line) for line in (run / "judged-step-000004.jsonl").read_text().splitlines()]
    assert {(line["was"], line["reward"]) for line in lines} <= {(1.0, 1.0), (0.0, 0.0), (1.0, 0.5), (0.0, 0.5)}
    assert (run / "trajectories" / "step-000004.jsonl").read_bytes() == before


def test_the_same_question_is_not_paid_again(run, service, capsys):
    for _ in range(2):
        assert main(["judge", str(run), "--step", "1", "--judge", f"m@{service.url}"]) == 0
    shown = capsys.readouterr().out
    assert "pairs ordered the same way" in shown
    assert len(service.requests) == len({json.dumps(request["messages"]) for request in service.requests})


def test_a_judge_is_measured_on_a_known_ranking(tmp_path, service, capsys):
    attempts = [{"text": "yes", "score": 1}, {"text": "no", "score": 0}]
    (tmp_path / "gold.jsonl").write_text(json.dumps({"input": "Well?", "attempts": attempts}))
    words = ["--calibrate", str(tmp_path / "gold.jsonl"), "--judge", f"m@{service.url}", "--votes", "2"]
    assert main(["judge", *words, "--judge-price", "1,2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["agreement"], told["pairs"], told["groups"], told["position_bias"]) == (1.0, 1, 1, 0.0)
    assert told["usd_per_group"] == pytest.approx(2 * (11 + 2 * 3) / 1e6)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give a run to judge, or --calibrate FILE.jsonl: one of the two"),
        (["RUN", "--calibrate", "gold.jsonl"], "one of the two"),
        (
            ["--calibrate", "gold.jsonl", "--step", "1", "--judge", "m@http://x"],
            "--step has no effect with --calibrate",
        ),
        (["RUN"], "--reward ruler needs --judge"),
        (["RUN", "--judge", "m@http://x", "--step", "9"], "has no rollouts of step 9; its steps are 1 to 4"),
        (["RUN", "--judge", "m@http://x", "--judge-budget", "1"], "needs price"),
        (["RUN", "--judge", "m@http://x", "--check", "a:b"], "--check has no effect here"),
        (["RUN", "--judge", "m@http://x", "--rubric", "@nowhere.txt"], "the rubric 'nowhere.txt' cannot be read"),
    ],
)
def test_what_cannot_be_judged_is_told(run, words, message, capsys):
    assert main(["judge", *[str(run) if word == "RUN" else word for word in words]]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
