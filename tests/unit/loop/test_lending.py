"""A judge that is the run's own base model: lent by the engine that trains, when it trains, measures, goes on, and afterwards."""

from __future__ import annotations

import json

import pytest

import art_core as art
from art_core.cli.main import main
from art_core.errors import InputError, RewardError
from art_core.judging.ruler import Ruler
from art_core.loop.config import TrainConfig
from art_core.loop.embedded import EmbeddedBackend
from art_core.loop.run import atrain
from art_core.observe.metrics import read_metrics
from art_core.trajectory import store
from tests.tiny import save_tiny

from .fake import SCENARIOS as FAKE_SCENARIOS
from .fake import FakeBackend, agent, config, quiet, reward

SCENARIOS = [art.Scenario(f"s{number}", f"question {number}") for number in range(2)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(save_tiny(tmp_path_factory.mktemp("model"), context=2_000))


def settings(tmp_path, **more):
    return TrainConfig.build(
        {
            "steps": 1,
            "name": "run",
            "out": str(tmp_path),
            "precision": "float32",
            "rollout": {"max_tokens": 12, "temperature": 2.0, "group_size": 3, "scenarios_per_step": 2},
            "lora": {"rank": 4},
            "evaluation": {"validation": 0, "test": 0},
            **more,
        }
    )


def first_only(trajectory, scenario):
    return float(scenario.id == "s0")


def judged():
    """Compares the rollouts of the first scenario; those of the other one get 0 without a question."""
    return art.Combined(Ruler("base", attempts=1, max_reply_tokens=8), first_only, by="gate")


async def train(model, tmp_path, judge, **more):
    given = {"base_model": model, "config": settings(tmp_path), **more}
    return await atrain(agent, None if "resume" in more else SCENARIOS, judge, progress=quiet(), **given)


async def test_a_random_model_is_asked_and_leaves_its_groups_unscored_with_the_reason(model, tmp_path):
    result = await train(model, tmp_path, judged())
    stored = list(store.read(result.run_dir / "trajectories" / "step-000001.jsonl"))
    ledger = result.summary["ledger"]["rollouts"]
    assert (ledger["sampled"], ledger["unscored"], ledger["no_spread"]) == (6, 3, 3)
    assert {one.reward_reason for one in stored if one.reward is None} == {
        f"judge: base/{model} gave no usable reply in 1 attempts: the reply was cut off after 8 tokens; be brief"
    }
    told = result.summary["judge"]
    assert (told["calls"], told["refused"], told["unscored"], told["estimated_calls"]) == (1, 1, 1, 0)
    assert (told["input_tokens"] > 1_000, told["output_tokens"]) == (True, 8)


async def test_what_it_says_is_in_no_rollout_and_in_no_ledger(model, tmp_path):
    alone = await train(model, tmp_path / "alone", first_only)
    asked = await train(model, tmp_path / "asked", judged())
    one, other = ([*store.read(run.run_dir / "trajectories" / "step-000001.jsonl")] for run in (alone, asked))
    assert [[t.completion_ids for t in r.turns] for r in one] == [[t.completion_ids for t in r.turns] for r in other]
    assert alone.summary["ledger"]["tokens"]["sampled"] == asked.summary["ledger"]["tokens"]["sampled"]


async def test_a_run_goes_on_with_it(model, tmp_path):
    first = await train(model, tmp_path, judged())
    again = await train(model, tmp_path, judged(), resume=first.run_dir, config=settings(tmp_path, steps=2))
    rows = [row for row in read_metrics(again.run_dir / "metrics.jsonl") if row["kind"] == "train"]
    assert [row["judge"]["calls"] for row in rows] == [1, 1]


async def test_the_base_model_is_asked_whatever_the_adapter_became(model, tmp_path):
    backend = EmbeddedBackend(model, settings(tmp_path))
    base = await backend.base()
    prompt = base.prompt([{"role": "user", "content": "Well?"}])
    before = await base.answer(prompt, max_tokens=12)
    for parameter in backend.trainer().model.parameters():
        if parameter.requires_grad:
            parameter.data.add_(1.0)
    await backend.publish(art.PolicyVersion("default", 1))
    (group,) = await art.gather(agent, SCENARIOS[:1], backend.policy(art.PolicyVersion("default", 1)), group_size=2)
    assert [turn.versions[0].version for one in group for turn in one.turns] == [art.PolicyVersion("default", 1)] * 2
    assert await base.answer(prompt, max_tokens=12) == before
    await backend.close()


async def test_evaluations_name_why_nothing_could_be_scored(model, tmp_path):
    scenarios = [art.Scenario(f"t{number}", f"test {number}") for number in range(2)]
    with pytest.raises(RewardError, match=r"none of the 2 test rollouts has a score; the first reason: judge: base/"):
        await train(model, tmp_path, Ruler("base", max_reply_tokens=8), test=scenarios)


async def test_a_backend_that_lends_none_is_refused_before_anything(tmp_path):
    with pytest.raises(InputError, match="a FakeBackend does not lend it; give provider/model"):
        await atrain(
            agent, FAKE_SCENARIOS, Ruler("base"), backend=FakeBackend(), config=config(tmp_path), progress=quiet()
        )
    assert list(tmp_path.iterdir()) == []


async def test_another_base_model_is_refused_before_anything(model, tmp_path):
    with pytest.raises(InputError, match="judge 'base/smollm2-135m' is not the base model of this run"):
        await train(model, tmp_path, Ruler("base/smollm2-135m"))
    assert list(tmp_path.iterdir()) == []


async def test_stored_rollouts_are_judged_by_the_base_model_of_their_run(model, tmp_path):
    await train(model, tmp_path, reward)
    code, told = await called("judge", str(tmp_path / "run"), "--judge", "base", "--json")
    assert code == 0
    assert (told["rollouts"], told["scored"], told["judge"]["calls"]) == (6, 0, 6)
    assert told["first_reason"].startswith(f"judge: base/{model} gave no usable reply in 3 attempts")


async def test_a_judge_is_measured_by_the_name_of_its_model(model, tmp_path, capsys):
    attempts = [{"text": "yes", "score": 1}, {"text": "no", "score": 0}]
    (tmp_path / "gold.jsonl").write_text(json.dumps({"input": "Well?", "attempts": attempts}))
    words = ["judge", "--calibrate", str(tmp_path / "gold.jsonl"), "--json", "--judge"]
    code, told = await called(*words, f"base/{model}")
    assert (code, told["groups"], told["unscored"], told["judge"]["calls"]) == (0, 0, 1, 3)
    assert (await called(*words, "base"))[0] == 2
    assert "there is none here; name the model: base/MODEL" in " ".join(capsys.readouterr().err.split())


async def test_the_command_line_trains_and_measures_with_it(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = "".join(json.dumps({"id": f"s{number}", "input": f"question {number}"}) + "\n" for number in range(8))
    (tmp_path / "all.jsonl").write_text(lines)
    (tmp_path / "two.jsonl").write_text("".join(lines.splitlines(keepends=True)[:2]))
    (tmp_path / "small.toml").write_text(FILE.format(model=model))
    code, told = await called("train", "small.toml", "--json")
    assert code == 0
    assert (told["before"]["n"], told["before"]["missing"]) == (2, 0)
    code, told = await called("eval", "runs/run", "--split", "two.jsonl", "--json")
    assert (code, told["n"], told["missing"]) == (0, 1, 1)


FILE = """
model = "{model}"
agent = {{ function = "tests.unit.loop.fake:agent" }}
scenarios = "all.jsonl"
reward = {{ function = "art_core.cli.judging:ruler", options = {{ judge = "base", check = "tests.unit.loop.test_lending:first_only" }} }}

[train]
steps = 1
name = "run"
rollout = {{ max_tokens = 4, group_size = 2, scenarios_per_step = 2 }}
evaluation = {{ validation = 0, test = 2 }}
lora = {{ rank = 4 }}
"""


async def called(*words):
    """The exit code of a command and what it printed; in a thread, for it has a loop of its own."""
    import asyncio
    import contextlib
    import io

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = await asyncio.to_thread(main, list(words))
    return code, json.loads(out.getvalue()) if code == 0 else None
