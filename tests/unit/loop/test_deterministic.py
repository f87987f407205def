from __future__ import annotations

import tomllib

import pytest

from art_core.errors import InputError
from art_core.loop.deterministic import check_same_machine, computing, decided_by_time
from art_core.loop.run import atrain
from art_core.scenario import Scenario
from art_core.trajectory.trajectory import Trajectory

from .fake import SCENARIOS, FakeBackend, agent, config, quiet, reward

HERE = {
    "cpu": "one",
    "cores": 2,
    "packages": {"torch": "2.13.0", "mcp": "1.0"},
    "computing": {"precision": "float32", "threads": 2, "lanes": 16},
}


class Machine(FakeBackend):
    """Says that it computes with so many threads."""

    def __init__(self, threads):
        super().__init__()
        self.threads = threads

    def describe(self):
        return {**super().describe(), "threads": self.threads}


async def run(tmp_path, backend, *, resume=None, **more):
    return await atrain(
        agent,
        None if resume else SCENARIOS,
        reward,
        backend=backend,
        config=config(tmp_path, **more),
        resume=resume,
        progress=quiet(),
    )


def test_the_same_machine_may_go_on():
    check_same_machine(HERE, {**HERE, "cores": 4, "packages": {"torch": "2.13.0", "mcp": "1.1"}})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"cpu": "two"}, "cpu was one and is two now$"),
        ({"packages": {"torch": "2.14.0"}}, r"torch was 2\.13\.0 and is 2\.14\.0 now$"),
        ({"computing": {"threads": 1}}, "threads was 2 and is 1 now; set OMP_NUM_THREADS=2$"),
        ({"computing": {"precision": "bfloat16"}}, "precision was float32 and is bfloat16 now$"),
        ({"computing": {"lanes": 8}}, "lanes was 16 and is 8 now$"),
    ],
)
def test_another_machine_may_not(change, sentence):
    with pytest.raises(InputError, match=f"^a deterministic run goes on where it began: {sentence}"):
        check_same_machine(HERE, {**HERE, **change})


def test_what_decides_numbers_is_taken_from_what_a_backend_says():
    said = {"base_model": "m", "device": "cpu", "precision": "float32", "threads": 2, "probe": {}}
    assert computing(said) == {"device": "cpu", "precision": "float32", "threads": 2}


@pytest.mark.parametrize(
    ("stop_reason", "metrics", "decided"),
    [
        ("finished", {}, False),
        ("max_tokens", {}, False),
        ("timeout", {}, True),
        ("finished", {"time_limits": 1}, True),
    ],
)
def test_what_a_time_limit_decided(stop_reason, metrics, decided):
    trajectory = Trajectory(scenario=Scenario("s", "x"), rollout_id="r", stop_reason=stop_reason, metrics=metrics)
    assert decided_by_time(trajectory) is decided


async def test_what_is_computed_in_is_recorded_when_a_run_begins(tmp_path):
    result = await run(tmp_path, Machine(2), steps=1)
    record = tomllib.loads((result.run_dir / "run.toml").read_text())
    assert record["environment"]["computing"] == {"device": "none", "precision": "float32", "threads": 2}


async def test_a_deterministic_run_is_not_resumed_with_other_threads(tmp_path):
    first = await run(tmp_path, Machine(2), steps=1, deterministic=True)
    before = (first.run_dir / "metrics.jsonl").read_text()
    with pytest.raises(InputError, match="threads was 2 and is 1 now; set OMP_NUM_THREADS=2"):
        await run(tmp_path, Machine(1), resume=first.run_dir, steps=2, deterministic=True)
    assert (first.run_dir / "metrics.jsonl").read_text() == before
    again = await run(tmp_path, Machine(2), resume=first.run_dir, steps=2, deterministic=True)
    assert again.summary["steps"] == 2


async def test_any_other_run_is(tmp_path):
    first = await run(tmp_path, Machine(2), steps=1)
    assert (await run(tmp_path, Machine(1), resume=first.run_dir, steps=2)).summary["steps"] == 2


async def test_an_agent_that_can_keeps_the_answers_of_its_tools(tmp_path):
    class Keeper:
        path = None

        def keep_answers(self, path):
            self.path = path

        async def __call__(self, scenario, session):
            return await agent(scenario, session)

    for deterministic in (False, True):
        keeper, out = Keeper(), tmp_path / str(deterministic)
        settings = config(out, steps=1, deterministic=deterministic)
        await atrain(keeper, SCENARIOS, reward, backend=FakeBackend(), config=settings, progress=quiet())
        assert keeper.path == (out / "run" / "tool-answers.jsonl" if deterministic else None)
