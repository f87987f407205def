"""A warm start: what is learnt from, that it lifts the model before training, and that a killed one goes on to the same end."""

from __future__ import annotations

import json
import tomllib

import pytest

import art_core as art
from art_core.loop.collect import acollect, open_collection
from art_core.loop.config import TrainConfig
from art_core.loop.splits import Splits
from art_core.messages import Message
from art_core.models.lora import read_adapter
from art_core.observe.metrics import read_metrics
from art_core.supervised import sft_run
from art_core.supervised.train import atrain
from art_core.supervised.warm_start import choose
from art_core.trajectory.trajectory import Reward
from tests.tiny import save_tiny
from tests.unit.loop.fake import quiet

SCENARIOS = [art.Scenario(f"s{number}", f"q{number}") for number in range(12)]


@pytest.fixture
def model(tmp_path):
    return str(save_tiny(tmp_path / "model"))


async def agent(scenario, session):
    return (await session.turn([Message(role="user", content=scenario.input)])).reply.text


def reward(trajectory, scenario):
    """Solved if the reply is the word; else the share of its letters that are right."""
    said = str(trajectory.output)[:4]
    return Reward(sum(a == b for a, b in zip(said, "noon", strict=False)) / 4, success=said == "noon")


async def collect(place, replies=lambda messages, tools: "noon", score=reward):
    await acollect(agent, SCENARIOS, art.ScriptedPolicy(replies), open_collection(place, {"model": "m"}), reward=score)
    return place


def settings(tmp_path, start, **more):
    values = {
        "steps": 1,
        "name": "run",
        "out": str(tmp_path / "runs"),
        "precision": "float32",
        "rollout": {"group_size": 2, "scenarios_per_step": 2, "max_tokens": 6},
        "evaluation": {"validation": 2, "test": 4},
        "warm_start": {"run": str(start), "epochs": 60, "learning_rate": 0.003},
    }
    return TrainConfig.build({**values, **more})


def same(one, two):
    one, two = read_adapter(one).factors, read_adapter(two).factors
    return all((a == b).all() for name in one for a, b in zip(one[name], two[name], strict=True))


async def test_the_run_begins_from_what_was_fine_tuned_and_both_are_measured(tmp_path, model):
    start = await collect(tmp_path / "c")
    config = settings(tmp_path, start)
    result = await atrain(agent, SCENARIOS, reward, base_model=model, config=config, progress=quiet())
    assert (result.before.success, result.warm_start.success) == (0.0, 1.0)
    warm = result.summary["warm_start"]
    assert (warm["measured"]["success"], warm["gain"]["measure"]) == (1.0, "success")
    assert (warm["data"]["rollouts"], warm["data"]["used"], warm["data"]["held_out"]) == (12, 6, 6)
    rows = read_metrics(result.run_dir / "metrics.jsonl")
    labels = [(row["label"], row["split"]) for row in rows if row["kind"] == "eval"]
    assert labels[:4] == [
        ("before", "validation"),
        ("before", "test"),
        ("warm-start", "validation"),
        ("warm-start", "test"),
    ]
    assert (result.run_dir / "trajectories" / "eval-warm-start.jsonl").is_file()
    assert same(result.run_dir / "start-adapter", next((result.run_dir / "warm-start").glob("checkpoints/*60")))
    assert "warm" in str(result)


class Killed(BaseException):
    """As if the process had been killed."""


async def test_a_run_that_was_killed_in_the_warm_start_goes_on_to_the_same_adapter(tmp_path, model, monkeypatch):
    start = await collect(tmp_path / "c")
    config = settings(tmp_path, start, warm_start={"run": str(start), "epochs": 4})
    whole = await atrain(agent, SCENARIOS, reward, base_model=model, config=config, progress=quiet())
    step, taken = sft_run.SftRun._take_step, []

    async def cut(self):
        taken.append(1)
        if len(taken) == 3:
            raise Killed
        await step(self)

    monkeypatch.setattr(sft_run.SftRun, "_take_step", cut)
    config = settings(tmp_path, start, warm_start={"run": str(start), "epochs": 4}, name="cut")
    with pytest.raises(Killed):
        await atrain(agent, SCENARIOS, reward, base_model=model, config=config, progress=quiet())
    place = tmp_path / "runs" / "cut"
    assert not (place / "start-adapter").exists()
    again = await atrain(agent, reward=reward, resume=place, progress=quiet())
    assert same(place / "start-adapter", whole.run_dir / "start-adapter")
    assert len(taken) == 5
    assert again.before.outcomes == whole.before.outcomes
    assert again.summary["warm_start"]["data"] == whole.summary["warm_start"]["data"]


async def test_a_finished_warm_start_is_not_made_again(tmp_path, model):
    start = await collect(tmp_path / "c")
    config = settings(tmp_path, start, warm_start={"run": str(start), "epochs": 1})
    await atrain(agent, SCENARIOS, reward, base_model=model, config=config, progress=quiet())
    (start / "trajectories.jsonl").unlink()
    place = tmp_path / "runs" / "run"
    again = await atrain(agent, reward=reward, resume=place, config=TrainConfig.build(steps=2), progress=quiet())
    assert again.summary["steps"] == 2
    assert again.summary["warm_start"]["measured"] is not None


async def test_what_may_be_learnt_from_is_chosen_and_the_rest_counted(tmp_path):
    def replies(messages, tools):
        text = messages[-1].text
        if text == "q0":
            raise RuntimeError("overloaded")
        return "noon" if text in ("q1", "q2", "q3") else "late"

    start = await collect(tmp_path / "c", replies)
    splits = Splits(train=SCENARIOS[:-1], validation=(), test=(art.Scenario("x", "q3"),))
    chosen, counts = choose(settings(tmp_path, start).warm_start, splits)
    assert [one.scenario.id for one in chosen] == ["s1", "s2"]
    assert {name: counts[name] for name in ("rollouts", "used", "failed", "held_out", "below")} == {
        "rollouts": 12,
        "used": 2,
        "failed": 1,
        "held_out": 1,
        "below": 8,
    }


async def test_where_the_reward_tells_no_success_a_threshold_decides(tmp_path):
    start = await collect(tmp_path / "c", score=lambda trajectory, scenario: 0.5)
    splits = Splits(train=SCENARIOS, validation=(), test=())
    with pytest.raises(art.InputError, match=r"12 whose reward tells no success \(set warm_start.min_reward\)"):
        choose(settings(tmp_path, start).warm_start, splits)
    config = settings(tmp_path, start, warm_start={"run": str(start), "min_reward": 0.5})
    assert choose(config.warm_start, splits)[1]["used"] == 12


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (None, "none of the 12 rollouts in .* can be learnt from: .* without a reward"),
        (lambda t, s: Reward(0.0, success=False), "none of the 12 rollouts in .*: .* did not pass the reward"),
    ],
)
async def test_nothing_that_passes_is_told_before_anything_is_made(tmp_path, model, score, message):
    start = await collect(tmp_path / "c", score=score)
    with pytest.raises(art.InputError, match=message):
        await atrain(agent, SCENARIOS, reward, base_model=model, config=settings(tmp_path, start), progress=quiet())
    assert not (tmp_path / "runs").exists()


async def test_a_directory_without_rollouts_is_told(tmp_path, model):
    config = settings(tmp_path, tmp_path)
    with pytest.raises(art.InputError, match=r"is no directory of collected rollouts: it has no trajectories\.jsonl"):
        await atrain(agent, SCENARIOS, reward, base_model=model, config=config, progress=quiet())


def test_two_places_to_begin_from_are_refused(tmp_path):
    with pytest.raises(art.InputError, match="both say where the run begins; leave one of them out"):
        settings(tmp_path, "c", lora={"start": "runs/a"})


async def test_the_chats_are_those_that_the_agent_will_ask(tmp_path, model):
    start = await collect(tmp_path / "c")
    config = settings(tmp_path, start, warm_start={"run": str(start), "epochs": 1})
    result = await atrain(agent, SCENARIOS, reward, base_model=model, config=config, progress=quiet())
    lines = [json.loads(line) for line in (result.run_dir / "warm-start.jsonl").read_text().splitlines()]
    assert len(lines) == 6
    asked = {line["messages"][0]["content"]: line["messages"][1]["content"] for line in lines}
    assert set(asked.values()) == {"noon"}
    record = tomllib.loads((result.run_dir / "run.toml").read_text())
    assert record["warm_start"]["used"] == 6
