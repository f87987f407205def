"""Scenarios that teach come more often: what is measured, what is drawn from it, and that nobody starves."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from art_core.errors import InputError
from art_core.inference.scripted import ScriptedPolicy
from art_core.loop.curriculum import FLOOR, Curriculum, group_record, spread
from art_core.loop.run import atrain
from art_core.loop.splits import Schedule
from art_core.observe.metrics import read_metrics
from art_core.randomness import fold, uniform
from art_core.scenario import Scenario
from art_core.trajectory.trajectory import Reward, Trajectory, TrajectoryGroup

from .fake import SCENARIOS, FakeBackend, agent, config, quiet, reward

PLAIN = [
    ["s6", "s3", "s2"],
    ["s0", "s5", "s4"],
    ["s1", "s6", "s3"],
    ["s4", "s0", "s5"],
    ["s2", "s1", "s4"],
    ["s2", "s1", "s5"],
    ["s6", "s3", "s0"],
]


def group(*rewards):
    """Siblings with these rewards; a pair is (reward, success)."""
    made = []
    for number, one in enumerate(rewards):
        value, success = one if isinstance(one, tuple) else (one, None)
        made.append(Trajectory(scenario=SCENARIOS[0], rollout_id=f"r-{number}", stop_reason="finished"))
        if value is not None:
            made[-1].score(Reward(value, success=success))
    return TrajectoryGroup(scenario=SCENARIOS[0], trajectories=made)


@pytest.mark.parametrize(
    ("outcomes", "share"),
    [
        ([True, False], 1.0),
        ([True, False, False, False], 3 / 6),
        ([True, True, False, False], 4 / 6),
        ([0.0, 0.5, 1.0], 1.0),
        ([0.5, 0.5, 1.0], 2 / 3),
        ([0.5, 0.5, 0.5], 0.0),
        ([1.0], None),
        ([], None),
    ],
)
def test_spread_is_the_share_of_pairs_that_differ(outcomes, share):
    assert spread(outcomes) == share


def test_success_counts_where_all_scored_siblings_tell_it_else_the_reward():
    assert group_record(group((0.9, False), (0.1, False), (1.0, True), None)) == {
        "scored": 3,
        "passed": 1,
        "spread": pytest.approx(2 / 3),
    }
    assert group_record(group((0.9, False), 0.9)) == {"scored": 2, "passed": None, "spread": 0.0}
    assert group_record(group(None)) == {"scored": 0, "passed": None, "spread": None}


def row(step, groups):
    told = {name: {"spread": value} for name, value in groups.items()}
    return {"kind": "train", "step": step, "curriculum": {"groups": told}}


def draw(scenarios, size, steps, teaches, *, seed=0):
    """The ids of each step; ``teaches`` gives the spread of a group from its scenario's id and step."""
    curriculum, rows, drawn = Curriculum(scenarios, size, seed=seed), [], []
    for step in range(1, steps + 1):
        ids = [scenario.id for scenario in curriculum.batch(rows)]
        drawn.append(ids)
        rows.append(row(step, {name: teaches(name, step) for name in ids}))
    return drawn, rows, curriculum


SIZES = st.integers(2, 30).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n - 1)))


@given(SIZES, st.integers(0, 3))
def test_where_everything_teaches_the_draw_is_the_plain_schedule(sizes, seed):
    n, size = sizes
    drawn, _, _ = draw(SCENARIOS[:n], size, 3 * n, lambda name, step: 0.5, seed=seed)
    schedule = Schedule(SCENARIOS[:n], size, seed=seed)
    assert drawn == [[scenario.id for scenario in schedule.batch(step)] for step in range(1, 3 * n + 1)]


@given(SIZES, st.integers(0, 3), st.randoms(use_true_random=False))
def test_nobody_starves_and_nobody_comes_twice_in_a_step(sizes, seed, chance):
    n, size = sizes
    drawn, _, _ = draw(SCENARIOS[:n], size, 60, lambda name, step: chance.choice([None, 0.0, 0.0, 0.5, 1.0]), seed=seed)
    assert all(len(set(ids)) == size for ids in drawn)
    bound = math.floor((1 / FLOOR + 2) * (n - 1) / size) + 1
    for scenario in SCENARIOS[:n]:
        visits = [0, *(step for step, ids in enumerate(drawn, 1) if scenario.id in ids), 61]
        assert all(later - earlier <= bound for earlier, later in itertools.pairwise(visits))


def test_what_never_teaches_comes_a_quarter_as_often():
    drawn, _, curriculum = draw(SCENARIOS[:20], 4, 500, lambda name, step: 0.0 if name in ("s3", "s7") else 0.5)
    counts = {name: sum(name in ids for ids in drawn) for name in ("s1", "s2", "s3", "s7")}
    assert counts["s3"] / counts["s1"] == pytest.approx(FLOOR, abs=0.02)
    assert counts["s7"] / counts["s2"] == pytest.approx(FLOOR, abs=0.02)
    told = curriculum.record([])
    assert (told["seen"], told["rarely"]) == (20, 2)


@pytest.mark.parametrize(("steps", "rarely"), [(3, 0), (6, 3)])
def test_a_scenario_is_rare_after_two_groups_without_spread(steps, rarely):
    # estimates 1/2, 1/4, 1/8; weights 1, 1/4 + 3/4 * 1/2 = 0.625, 1/4 + 3/4 * 1/4 = 0.4375
    _, rows, curriculum = draw(SCENARIOS[:3], 1, steps, lambda name, step: 0.0)
    curriculum.batch(rows)
    assert curriculum.record([])["rarely"] == rarely


def test_one_that_begins_to_teach_comes_as_often_as_the_others_again():
    drawn, _, _ = draw(SCENARIOS[:10], 2, 400, lambda name, step: 0.0 if name == "s3" and step < 200 else 0.5)
    late = [sum(name in ids for ids in drawn[300:]) for name in ("s3", "s1")]
    assert abs(late[0] - late[1]) <= 1


def test_one_that_comes_every_step_saves_no_turns_up():
    """Two of three a step: the one that teaches cannot come as often as its weight says, and stops when it teaches no more."""
    drawn, _, _ = draw(SCENARIOS[:3], 2, 400, lambda name, step: 0.5 if (name == "s0") == (step < 200) else 0.0)
    assert sum("s0" in ids for ids in drawn[50:199]) == 149
    assert sum("s0" in ids for ids in drawn[210:400]) / 190 == pytest.approx(2 * 0.25 / 2.25, abs=0.03)


@given(st.integers(0, 40), st.integers(0, 3))
def test_a_resumed_draw_goes_on_with_the_same_scenarios(cut, seed):
    def teaches(name, step):
        return uniform(fold(name, step), 0)

    drawn, rows, _ = draw(SCENARIOS[:12], 3, 41, teaches, seed=seed)
    again = Curriculum(SCENARIOS[:12], 3, seed=seed).batch(rows[:cut])
    assert [scenario.id for scenario in again] == drawn[cut]


def test_another_seed_is_another_order():
    assert Curriculum(SCENARIOS, 4, seed=0).batch([]) != Curriculum(SCENARIOS, 4, seed=1).batch([])


def test_nothing_to_choose_is_refused():
    with pytest.raises(InputError, match=r"curriculum 'pass_rate' has nothing to choose where a step takes 4 of 4"):
        Curriculum(SCENARIOS[:4], 4, seed=0)


def test_the_plain_schedule_draws_these_scenarios():
    scenarios = [Scenario(f"s{i}", f"question {i}", metadata={"tool": "ab"[i % 2]}) for i in range(7)]
    schedule = Schedule(scenarios, 3, seed=5)
    assert [[scenario.id for scenario in schedule.batch(step)] for step in range(1, 8)] == PLAIN


class Rates(FakeBackend):
    """A third of the scenarios is never solved, a third always, a third every other time; training changes nothing."""

    def policy(self, version):
        class Policy:
            async def complete(self, session, messages, tools, params):
                rate = {"0": 0.0, "1": 1.0, "2": 0.5}[str(int(messages[-1].text.split()[-1]) % 3)]
                word = "yes" if uniform(fold(*session.rng_parts), 0) < rate else "no"
                return await ScriptedPolicy([word], version=version).complete(session, messages, tools, params)

        return Policy()


def settings(tmp_path, curriculum, steps):
    rollout = {"group_size": 4, "scenarios_per_step": 2, "curriculum": curriculum}
    return config(tmp_path, steps=steps, flat_steps=50, rollout=rollout, evaluation={"validation": 0, "test": 0})


async def run(tmp_path, curriculum, steps):
    asked = settings(tmp_path, curriculum, steps)
    result = await atrain(agent, SCENARIOS[:12], reward, backend=Rates(rate=0.0), config=asked, progress=quiet())
    return result, [row for row in read_metrics(result.run_dir / "metrics.jsonl") if row["kind"] == "train"]


def share_with_spread(rows):
    counts = [row["ledger"]["rollouts"] for row in rows]
    sampled = sum(count["sampled"] for count in counts)
    return (sampled - sum(count["no_spread"] for count in counts)) / sampled


async def test_the_share_of_groups_with_spread_rises(tmp_path):
    result, rows = await run(tmp_path, "pass_rate", 36)
    assert share_with_spread(rows[:6]) <= 1 / 3  # the first epoch: nothing is known, and a third can have any
    assert share_with_spread(rows[18:]) > 0.45
    assert [rows[0]["curriculum"]["seen"], rows[-1]["curriculum"]["seen"]] == [0, 12]
    assert rows[-1]["curriculum"]["rarely"] == 8
    assert result.summary["scenarios"]["trained_on"] == 12


async def test_without_it_rows_say_nothing_of_it(tmp_path):
    _, rows = await run(tmp_path, "none", 2)
    assert all("curriculum" not in row for row in rows)


async def test_a_resumed_run_draws_what_an_uninterrupted_one_does(tmp_path):
    _, whole = await run(tmp_path / "whole", "pass_rate", steps=14)
    first, _ = await run(tmp_path / "cut", "pass_rate", steps=8)
    again = await atrain(
        agent,
        reward=reward,
        backend=Rates(rate=0.0),
        resume=first.run_dir,
        config=settings(tmp_path / "cut", "pass_rate", steps=14),
        progress=quiet(),
    )
    rows = [row for row in read_metrics(again.run_dir / "metrics.jsonl") if row["kind"] == "train"]
    assert [row["curriculum"] for row in rows] == [row["curriculum"] for row in whole]
