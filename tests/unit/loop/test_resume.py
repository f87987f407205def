from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import time

import pytest

from art_core.errors import InputError, RewardError, TrainerError
from art_core.loop.config import TrainConfig
from art_core.loop.run import atrain
from art_core.loop.training_run import TrainingRun
from art_core.observe.metrics import read_metrics
from art_core.observe.progress import Progress
from art_core.supervised.train import train
from art_core.trajectory import store

from .fake import SCENARIOS, FakeBackend, agent, config, quiet, reward

CLOCK = ("time_s", "seconds", "tokens_per_s")


class Killed(BaseException):
    """Ends a run like a kill: nothing after it is written."""


async def start(tmp_path, backend=None, **more):
    return await atrain(
        agent, SCENARIOS, reward, backend=backend or FakeBackend(), config=config(tmp_path, **more), progress=quiet()
    )


async def resume(path, **more):
    return await atrain(agent, reward=reward, backend=FakeBackend(), resume=path, progress=quiet(), **more)


def numbers(run_dir):
    """The rows without what a clock says, and without events."""
    rows = [row for row in read_metrics(run_dir / "metrics.jsonl") if row["kind"] != "event"]
    return [{k: v for k, v in row.items() if not k.startswith(CLOCK)} for row in rows]


def stored(run_dir, step):
    path = run_dir / "trajectories" / f"step-{step:06d}.jsonl"
    return [(t.rollout_id, t.reward, t.turns[0].completion_ids, t.turns[0].logprobs) for t in store.read(path)]


def kill(monkeypatch, owner, name, count):
    """Make the ``count``-th call of a method end the process, as far as the run can tell."""
    method, calls = getattr(owner, name), []

    def killing(self, *args, **kwargs):
        calls.append(name)
        if len(calls) == count:
            raise Killed("killed")
        return method(self, *args, **kwargs)

    monkeypatch.setattr(owner, name, killing)


PLACES = [
    *((FakeBackend, "policy", count) for count in range(1, 10)),
    *((FakeBackend, "publish", count) for count in range(1, 4)),
    *((FakeBackend, "save", count) for count in range(1, 5)),
    *((TrainingRun, "write", count) for count in range(1, 11)),
    *((TrainingRun, "_record", count) for count in range(1, 5)),
]


@pytest.mark.parametrize(("owner", "method", "count"), PLACES)
async def test_a_killed_run_goes_on_as_if_it_had_not_been(tmp_path, monkeypatch, owner, method, count):
    whole = await start(tmp_path / "whole")
    with monkeypatch.context() as patch:
        kill(patch, owner, method, count)
        with pytest.raises(BaseException, match="killed"):
            await start(tmp_path / "cut")
    again = await resume(tmp_path / "cut" / "run")
    assert numbers(again.run_dir) == numbers(whole.run_dir)
    assert all(stored(again.run_dir, step) == stored(whole.run_dir, step) for step in range(1, 5))
    assert again.after.outcomes == whole.after.outcomes


async def test_complete_groups_of_the_cut_step_are_used_again(tmp_path):
    first = await start(tmp_path, steps=2)
    journal = first.run_dir / "trajectories" / "step-000003.jsonl"
    other = await start(tmp_path / "other", steps=3)
    lines = (other.run_dir / "trajectories" / journal.name).read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:5]) + lines[5][:40])
    asked = []

    async def counting(scenario, session):
        asked.extend([session.rollout_id] * (not session.evaluating))
        return await agent(scenario, session)

    await atrain(
        counting,
        reward=reward,
        backend=FakeBackend(),
        resume=first.run_dir,
        config=config(tmp_path, steps=3),
        progress=quiet(),
    )
    assert len(set(asked)) == 8 + 1  # two groups, and the trial before the run


@pytest.mark.parametrize(("owner", "method", "count"), [PLACES[5], PLACES[14], PLACES[20], PLACES[28]])
async def test_t28_each_scenario_has_exactly_its_siblings_over_epochs_and_a_resume(
    tmp_path, monkeypatch, owner, method, count
):
    more = {"evaluation": {"validation": 0, "test": 0}, "steps": 8}
    few = SCENARIOS[:6]  # two steps of three are an epoch
    with monkeypatch.context() as patch:
        kill(patch, owner, method, count)
        with pytest.raises(BaseException, match="killed"):
            await atrain(agent, few, reward, backend=FakeBackend(), config=config(tmp_path, **more), progress=quiet())
    again = await resume(tmp_path / "run")
    rollouts = [
        [t.rollout_id for t in store.read(again.run_dir / "trajectories" / f"step-{step:06d}.jsonl")]
        for step in range(1, 9)
    ]
    for epoch in range(4):
        ids = [rollout_id for step in rollouts[2 * epoch : 2 * epoch + 2] for rollout_id in step]
        siblings = [rollout_id.split("-", 1)[1] for rollout_id in ids]
        assert sorted(siblings) == sorted(f"s{number}-{sibling}" for number in range(6) for sibling in range(4))
    assert sum(row["ledger"]["rollouts"]["sampled"] for row in numbers(again.run_dir) if row["kind"] == "train") == 96


async def test_more_steps_can_be_asked_of_a_finished_run(tmp_path):
    first = await start(tmp_path, steps=2)
    again = await resume(first.run_dir, config=config(tmp_path, steps=4))
    assert again.summary["steps"] == 4
    assert [row["step"] for row in numbers(again.run_dir) if row["kind"] == "train"] == [1, 2, 3, 4]


async def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path):
    whole = await start(tmp_path / "whole")
    first = await start(tmp_path)
    (first.run_dir / "checkpoints" / "step-000004" / "state.json").write_text("{}")
    again = await resume(first.run_dir)
    assert [row for row in numbers(again.run_dir) if row["kind"] == "train"] == [
        row for row in numbers(whole.run_dir) if row["kind"] == "train"
    ]


async def test_other_settings_are_refused(tmp_path):
    first = await start(tmp_path, steps=1)
    with pytest.raises(InputError, match="seed is 0 in the run and 7 now"):
        await resume(first.run_dir, config=config(tmp_path, seed=7))


async def test_other_scenarios_are_refused(tmp_path):
    first = await start(tmp_path, steps=1)
    with pytest.raises(InputError, match="a resumed run keeps its scenarios"):
        await resume(first.run_dir, scenarios=["something else"])


async def test_only_a_run_directory_can_be_resumed(tmp_path):
    with pytest.raises(InputError, match=r"it has no run\.toml"):
        await resume(tmp_path)


async def test_one_run_has_one_trainer(tmp_path):
    first = await start(tmp_path, steps=1)
    backend = FakeBackend()
    refusals = []

    def second():
        with pytest.raises(InputError, match="is being trained by another process"):
            asyncio.run(resume(first.run_dir))
        refusals.append(True)

    backend.on_train = second
    await atrain(
        agent, reward=reward, backend=backend, resume=first.run_dir, config=config(tmp_path, steps=2), progress=quiet()
    )
    assert refusals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupt_finishes_the_step_and_can_be_resumed(tmp_path, number):
    backend = FakeBackend()
    backend.on_train = lambda: len(backend.trained) == 1 and os.kill(os.getpid(), number)
    before = signal.getsignal(number)
    cut = await start(tmp_path / "cut", backend)
    assert (cut.stop_reason, cut.summary["steps"], cut.after) == ("interrupted", 2, None)
    assert cut.adapter.is_dir()
    assert signal.getsignal(number) == before
    again = await resume(cut.run_dir)
    assert numbers(again.run_dir) == numbers((await start(tmp_path / "whole")).run_dir)


@pytest.mark.parametrize("where", ["0-", "4-"])
async def test_an_interrupt_gives_an_evaluation_up_and_it_is_made_on_resume(tmp_path, where):
    asked = []

    async def slow(scenario, session):
        if session.evaluating and session.rollout_id.startswith(where):
            asked.append(session.rollout_id)
            if len(asked) == 1:
                os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(60)
        return await agent(scenario, session)

    cut = await atrain(slow, SCENARIOS, reward, backend=FakeBackend(), config=config(tmp_path), progress=quiet())
    assert (cut.stop_reason, cut.after, cut.summary["steps"]) == ("interrupted", None, int(where[0]))
    again = await resume(cut.run_dir)
    assert numbers(again.run_dir) == numbers((await start(tmp_path / "whole")).run_dir)


def test_a_second_interrupt_aborts_at_once(tmp_path):
    async def stuck(scenario, session):
        if session.rollout_id.startswith("2-") and not session.evaluating:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(60)
        return await agent(scenario, session)

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        train(stuck, SCENARIOS, reward, backend=FakeBackend(), config=config(tmp_path), progress=quiet())
    assert time.monotonic() - began < 20
    again = asyncio.run(resume(tmp_path / "run"))
    assert again.summary["steps"] == 4


async def test_a_step_in_which_nothing_was_scored_is_sampled_again(tmp_path):
    calls = []

    def down(trajectory, scenario):
        calls.append(scenario)
        if len(calls) > 20:
            raise RuntimeError("quota used up")
        return reward(trajectory, scenario)

    with pytest.raises(RewardError, match="quota used up"):
        await atrain(agent, SCENARIOS, down, backend=FakeBackend(), config=config(tmp_path), progress=quiet())
    again = await resume(tmp_path / "run")
    assert (again.stop_reason, again.summary["steps"]) == ("steps", 4)
    rows = [row for row in read_metrics(again.run_dir / "metrics.jsonl") if row["kind"] == "train"]
    assert [row["ledger"]["rollouts"]["unscored"] for row in rows] == [7, 0, 0, 0]


async def test_limits_that_were_not_given_stay_as_they_were(tmp_path):
    first = await start(tmp_path, steps=5, keep_checkpoints=5)
    again = await resume(first.run_dir, config=TrainConfig(steps=6))
    assert again.summary["steps"] == 6
    assert len(list((first.run_dir / "checkpoints").iterdir())) >= 5
    with pytest.raises(InputError, match="a resumed run keeps its settings: seed is 0 in the run and 4 now"):
        await resume(first.run_dir, config=TrainConfig(steps=6, seed=4))


@pytest.mark.parametrize("name", ["validation", "test"])
async def test_a_resumed_run_takes_no_other_scenarios_to_measure_on(tmp_path, name):
    first = await start(tmp_path, steps=1)
    with pytest.raises(InputError, match=f"{name}= has no effect with resume="):
        await resume(first.run_dir, **{name: SCENARIOS[:5]})


async def test_the_summary_of_an_earlier_end_is_gone_once_the_run_has_gone_on(tmp_path, monkeypatch):
    first = await start(tmp_path, steps=2)
    kill(monkeypatch, TrainingRun, "_record", 2)
    with pytest.raises(BaseException, match="killed"):
        await resume(first.run_dir, config=config(tmp_path, steps=4))
    assert not (first.run_dir / "summary.json").exists()


async def test_figures_after_are_those_of_the_adapter_that_is_handed_over(tmp_path, monkeypatch):
    first = await start(tmp_path, steps=4, keep_checkpoints=4, best_metric="reward_mean")
    monkeypatch.setattr(FakeBackend, "policy", lambda self, version: 1 / 0)  # to evaluate the newly chosen adapter
    with pytest.raises(TrainerError, match="ZeroDivisionError"):
        await resume(first.run_dir, config=TrainConfig(best_metric="reward_mean", best_mode="min"))
    summary = json.loads((first.run_dir / "summary.json").read_text())
    assert summary["best_step"] != first.summary["best_step"]
    assert summary["after"] is None


async def test_a_damaged_best_checkpoint_is_left_out_and_told(tmp_path):
    first = await start(tmp_path, steps=4, keep_checkpoints=4)
    (first.adapter / "manifest.json").write_text("{}")
    err = io.StringIO()
    again = await atrain(
        agent,
        reward=reward,
        backend=FakeBackend(),
        resume=first.run_dir,
        config=TrainConfig(steps=5),
        progress=Progress(out=io.StringIO(), err=err),
    )
    assert again.adapter != first.adapter
    assert again.stop_reason == "steps"


async def test_tokens_per_second_counts_what_this_call_sampled(tmp_path):
    first = await start(tmp_path, steps=1)
    other = await start(tmp_path / "other", steps=2)
    name = "step-000002.jsonl"
    (first.run_dir / "trajectories" / name).write_bytes((other.run_dir / "trajectories" / name).read_bytes())
    again = await resume(first.run_dir, config=TrainConfig(steps=2))
    row = next(r for r in read_metrics(again.run_dir / "metrics.jsonl") if r["kind"] == "train" and r["step"] == 2)
    assert row["sampled_tokens"] > 0
    assert row["tokens_per_s"] == 0.0
