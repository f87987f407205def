from __future__ import annotations

import asyncio
import dataclasses
import io
import json
import time

import pytest

from art_core.errors import InputError, NonFiniteError, ProviderError, RewardError, TrainerError
from art_core.loop.config import EvaluationConfig
from art_core.loop.run import atrain
from art_core.loop.rundir import RunDir
from art_core.observe.ledger import Ledger
from art_core.observe.metrics import read_metrics
from art_core.observe.progress import Progress
from art_core.supervised.train import train
from art_core.trajectory import store
from art_core.trajectory.graph import PolicyVersion, Span
from art_core.trajectory.trajectory import Reward

from .fake import SCENARIOS, FakeBackend, agent, config, quiet, reward


async def run(tmp_path, backend=None, *, resume=None, agent=agent, reward=reward, scenarios=SCENARIOS, **more):
    return await atrain(
        agent,
        None if resume else scenarios,
        reward,
        backend=backend or FakeBackend(),
        config=None if resume and not more else config(tmp_path, **more),
        resume=resume,
        progress=quiet(),
    )


def rows(result_or_path, kind):
    return [
        row
        for row in read_metrics(getattr(result_or_path, "run_dir", result_or_path) / "metrics.jsonl")
        if row["kind"] == kind
    ]


async def test_it_learns_and_says_by_how_much(tmp_path):
    result = await run(tmp_path, steps=8)
    assert result.before.success < result.after.success == 1.0
    assert result.gain.difference == result.after.success - result.before.success
    assert result.gain.ci95[0] > 0


async def test_every_step_balances_in_rollouts_and_tokens(tmp_path):
    result = await run(tmp_path)
    for row in rows(result, "train"):
        ledger = Ledger.from_dict(row["ledger"])
        ledger.check()
        assert ledger["sampled"].rollouts == 12
    assert result.summary["ledger"]["rollouts"]["sampled"] == 48


async def test_the_run_directory_holds_what_is_promised(tmp_path):
    result = await run(tmp_path)
    present = {path.name for path in result.run_dir.iterdir()}
    assert {"run.toml", "metrics.jsonl", "trajectories", "checkpoints", "report.html", "summary.json"} <= present
    summary = json.loads((result.run_dir / "summary.json").read_text())
    assert summary["base_model"] == "coin"
    assert summary["steps"] == 4
    assert summary["before"]["n"] == 8
    assert summary["after"]["method"] == "wilson"
    assert summary["seconds"].keys() >= {"rollout", "train", "reload", "checkpoint", "evaluate", "total"}


class WithTools:
    """An agent whose tools really run."""

    async def tools_found(self):
        return {"look_up": "real", "refund": "stub"}

    async def __call__(self, scenario, session):
        return await agent(scenario, session)


async def test_the_tools_that_really_run_are_kept_in_the_run(tmp_path):
    result = await run(tmp_path, steps=1, agent=WithTools())
    assert RunDir.open(result.run_dir).read_training_record()["tools"] == {"look_up": "real", "refund": "stub"}


async def test_a_tool_that_must_not_run_ends_the_run_before_the_first_rollout(tmp_path):
    class Refusing(WithTools):
        async def tools_found(self):
            raise InputError("tool 'refund' would really run")

        async def __call__(self, scenario, session):
            raise AssertionError("a rollout")

    with pytest.raises(InputError, match="tool 'refund' would really run"):
        await run(tmp_path, agent=Refusing())
    assert not (tmp_path / "runs").exists()


async def test_trajectories_are_stored_with_their_fate(tmp_path):
    result = await run(tmp_path, steps=1)
    stored = list(store.read(result.run_dir / "trajectories" / "step-000001.jsonl"))
    assert len(stored) == 12
    assert {t.metadata["fate"] for t in stored} <= {"trained", "no_spread"}
    assert all(t.reward in (0.0, 1.0) for t in stored)


async def test_it_stops_at_the_target(tmp_path):
    result = await run(tmp_path, steps=50, target=0.8)
    assert result.stop_reason == "target"
    assert result.summary["steps"] < 50


async def test_it_stops_when_patience_is_up(tmp_path):
    result = await run(tmp_path, FakeBackend(rate=0.0), steps=50, patience=2)
    assert result.stop_reason == "patience"
    assert result.summary["steps"] == 4


async def test_it_stops_when_nothing_can_be_learnt(tmp_path):
    """T23: steps whose groups are all without spread count as steps, not as updates."""
    result = await run(tmp_path, FakeBackend(skill=0.0), steps=50, flat_steps=3)
    assert (result.stop_reason, result.summary["steps"], result.summary["updates"]) == ("no_spread", 3, 0)
    assert result.summary["ledger"]["rollouts"]["no_spread"] == 36


async def test_it_stops_in_time_and_still_evaluates(tmp_path):
    backend = FakeBackend(rate=0.0)
    backend.on_train = lambda: time.sleep(0.3)
    result = await run(tmp_path, backend, steps=1000, max_time=2)
    assert result.stop_reason == "max_time"
    assert result.after is not None
    assert result.summary["steps"] < 10


async def test_the_best_adapter_is_the_one_measured(tmp_path):
    backend = FakeBackend(skill=0.4, rate=0.15)
    backend.on_train = lambda: setattr(backend, "rate", -0.2 if len(backend.trained) >= 2 else 0.15)
    result = await run(tmp_path, backend, steps=6)
    assert result.summary["best_step"] == 2
    assert result.adapter.name == "step-000002"
    assert result.after.version == "default@2"


async def test_a_missing_reward_is_not_a_zero(tmp_path):
    def flaky(trajectory, scenario):
        if trajectory.rollout_id.endswith("-1"):
            raise RuntimeError("no answer")
        return reward(trajectory, scenario)

    result = await run(tmp_path, reward=flaky, steps=2)
    assert result.summary["ledger"]["rollouts"]["unscored"] == 6
    assert all(row["ledger"]["rollouts"]["unscored"] == 3 for row in rows(result, "train"))


async def test_a_failing_rollout_loses_nothing(tmp_path):
    async def brittle(scenario, session):
        text = await agent(scenario, session)
        if session.rollout_id.endswith("-2"):
            raise RuntimeError("tool gone")
        return text

    result = await run(tmp_path, agent=brittle, steps=1)
    stored = list(store.read(result.run_dir / "trajectories" / "step-000001.jsonl"))
    assert [len(t.turns) for t in stored if t.failed] == [1, 1, 1]
    assert result.summary["ledger"]["rollouts"]["failed"] == 3


async def test_nothing_scored_is_an_error_with_the_first_reason(tmp_path):
    calls = []

    def dies(trajectory, scenario):
        calls.append(scenario)
        if len(calls) > 20:
            raise RuntimeError("quota used up")
        return reward(trajectory, scenario)

    with pytest.raises(RewardError, match=r"none of the 12 rollouts .* quota used up"):
        await run(tmp_path, reward=dies)


async def test_a_non_finite_loss_ends_the_run_with_the_last_good_adapter(tmp_path):
    with pytest.raises(NonFiniteError):
        await run(tmp_path, FakeBackend(fail_at=3))
    folder = tmp_path / "run"
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == ["step-000001", "step-000002"]
    assert json.loads((folder / "summary.json").read_text())["stop_reason"] == "error"
    assert len(list(store.read(folder / "trajectories" / "step-000003.jsonl"))) == 12


async def test_a_foreign_failure_in_training_surfaces_at_once(tmp_path):
    backend = FakeBackend()
    backend.on_train = lambda: 1 / 0
    began = time.monotonic()
    with pytest.raises(TrainerError, match="ZeroDivisionError"):
        await run(tmp_path, backend)
    assert time.monotonic() - began < 10


async def test_t22_an_engine_that_serves_other_weights_is_found_out(tmp_path):
    class Forgetful(FakeBackend):
        def policy(self, version):
            return super().policy(self.served)

        async def publish(self, version):
            pass

    with pytest.raises(ProviderError, match="sampled by default@0, but default@1 was published"):
        await run(tmp_path, Forgetful())


class Relabelling(FakeBackend):
    """Says of its training rollouts that these spans sampled them, after the first update."""

    def __init__(self, *spans):
        super().__init__()
        self.spans = spans

    def policy(self, version):
        policy = super().policy(version)
        if version.step:
            complete = policy.complete

            async def relabelled(session, *request):
                turn = await complete(session, *request)
                return turn if session.evaluating else dataclasses.replace(turn, versions=self.spans)

            policy.complete = relabelled
        return policy


@pytest.mark.parametrize(
    ("spans", "told"),
    [
        ((Span(0, PolicyVersion("default", 0)),), "sampled by default@0"),
        ((Span(0, PolicyVersion("default", 1)), Span(1, PolicyVersion("default", 2))), "default@1 and default@2"),
        ((Span(0, PolicyVersion("default", 0)), Span(1, PolicyVersion("default", 1))), "default@0 and default@1"),
        ((), "sampled by weights it does not name"),
    ],
)
async def test_t22_a_token_of_other_weights_is_never_trained(tmp_path, spans, told):
    backend = Relabelling(*spans)
    with pytest.raises(ProviderError, match=f"{told}, but default@1 was published"):
        await run(tmp_path, backend)
    assert len(backend.trained) == 1


async def test_t22_every_token_span_of_a_step_carries_the_one_version_that_was_served(tmp_path):
    result = await run(tmp_path)
    served = "default@0"
    for row in rows(result, "train"):
        stored = store.read(result.run_dir / "trajectories" / f"step-{row['step']:06d}.jsonl")
        assert {str(span.version) for t in stored for turn in t.graph for span in turn.versions} == {served}
        served = row["version"]
    assert served == rows(result, "train")[-1]["version"] != "default@0"


class Drifting(FakeBackend):
    """Its trainer computes something else than its sampler."""

    def train(self, *args):
        return dataclasses.replace(super().train(*args), kl_behaviour=0.032)


@pytest.mark.parametrize(("passes", "told"), [(1, 1), (2, 0)])
async def test_a_trainer_that_disagrees_with_the_sampler_is_told_once(tmp_path, passes, told):
    err = io.StringIO()
    await atrain(
        agent,
        SCENARIOS,
        reward,
        backend=Drifting(),
        config=config(tmp_path, training={"passes": passes}),
        progress=Progress(quiet=True, out=io.StringIO(), err=err),
    )
    said = " ".join(err.getvalue().split())
    assert said.count("step 1: sampler and trainer differ by 0.032 nats a token (kl_behaviour)") == told
    assert said.count("sampler and trainer differ") == told


async def test_a_deterministic_run_ends_where_a_time_limit_cut_a_rollout_off(tmp_path):
    async def stuck(scenario, session):
        text = await agent(scenario, session)
        if session.rollout_id.startswith("2-") and session.rollout_id.endswith("-1") and not session.evaluating:
            await asyncio.sleep(60)
        return text

    more = {
        "deterministic": True,
        "rollout": {"group_size": 4, "scenarios_per_step": 3, "limits": {"seconds": 0.5}},
    }
    with pytest.raises(TrainerError, match=r"rollout '2-s\d+-1' or its reward was cut off by a time limit"):
        await run(tmp_path, agent=stuck, **more)
    again = await run(tmp_path, resume=tmp_path / "run")
    other = await run(tmp_path / "other", **more)
    assert [row["reward_mean"] for row in rows(again, "train")] == [row["reward_mean"] for row in rows(other, "train")]


async def test_a_deterministic_evaluation_ends_where_a_reward_had_no_time(tmp_path):
    def slow(trajectory, scenario):
        if not trajectory.rollout_id.startswith("preflight"):
            time.sleep(0.4)
        return reward(trajectory, scenario)

    limits = {"reward_seconds": 0.1}
    with pytest.raises(TrainerError, match=r"rollout '0-s\d+-0' or its reward was cut off by a time limit"):
        await run(tmp_path, reward=slow, deterministic=True, rollout={"limits": limits, "scenarios_per_step": 3})


async def test_bad_rewards_are_refused_before_anything_is_made(tmp_path):
    def score(trajectory, scenario):
        return float("nan")

    with pytest.raises(InputError, match=r"reward 'score' cannot be used.*not finite"):
        await run(tmp_path, reward=score)
    assert not (tmp_path / "run").exists()


async def test_an_agent_that_asks_nothing_is_refused(tmp_path):
    with pytest.raises(InputError, match="before it asked the model anything"):
        await run(tmp_path, agent=lambda scenario, session: "done")


async def test_too_few_scenarios_are_refused(tmp_path):
    with pytest.raises(InputError, match="too few"):
        await run(tmp_path, scenarios=SCENARIOS[:2])


async def test_a_used_run_directory_is_refused(tmp_path):
    await run(tmp_path, steps=1)
    with pytest.raises(InputError, match="is not empty; choose another name, or go on with it: --resume"):
        await run(tmp_path, steps=1)


async def test_an_unwritable_run_directory_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        await run(tmp_path / "file")


async def test_train_refuses_a_running_loop():
    with pytest.raises(InputError, match=r"await art\.atrain"):
        train(agent, SCENARIOS, reward)


def test_train_runs_its_own_loop(tmp_path):
    result = train(agent, SCENARIOS, reward, backend=FakeBackend(), config=config(tmp_path, steps=1), progress=quiet())
    assert "coin, 1 steps" in str(result)


async def test_without_held_out_scenarios_the_last_adapter_is_the_result(tmp_path):
    result = await run(tmp_path, steps=3, evaluation=EvaluationConfig(validation=0, test=0))
    assert (result.before, result.after, result.adapter.name) == (None, None, "step-000003")


async def test_a_group_reward_ranks_siblings(tmp_path):
    class Judge:
        async def score_group(self, group):
            return [Reward(float(t.output == "yes")) for t in group]

    result = await run(tmp_path, reward=Judge(), steps=6)
    assert result.after.measure == "reward"
    assert result.gain.difference > 0
