from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from art_core.errors import InputError
from art_core.loop.splits import Schedule, Splits, make_splits
from art_core.scenario import Scenario

SCENARIOS = [Scenario(f"s{number}", f"question {number}") for number in range(30)]


@given(st.integers(1, 30).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))), st.integers(0, 3))
def test_every_epoch_has_every_scenario_once_and_no_step_one_twice(sizes, seed):
    n, size = sizes
    schedule = Schedule(SCENARIOS[:n], size, seed=seed)
    steps = [[scenario.id for scenario in schedule.batch(step)] for step in range(1, n + 1)]
    assert all(len(set(step)) == size for step in steps)
    drawn = [name for step in steps for name in step]
    assert all(len(set(drawn[start : start + n])) == n for start in range(0, len(drawn), n))


@given(st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n), st.integers(0, 3 * n))))
def test_t28_no_scenario_is_repeated_or_lost_over_epochs_and_a_resume(sizes):
    n, size, begin = sizes
    whole = Schedule(SCENARIOS[:n], size, seed=5)
    steps = 4 * n
    drawn = [scenario.id for step in range(1, begin + 1) for scenario in whole.batch(step)]
    resumed = Schedule(SCENARIOS[:n], size, seed=5)
    drawn += [scenario.id for step in range(begin + 1, steps + 1) for scenario in resumed.batch(step)]
    ahead, at_least = max(map(drawn.count, drawn)), min(drawn.count(s.id) for s in SCENARIOS[:n])
    assert sum(map(drawn.count, {s.id for s in SCENARIOS[:n]})) == steps * size
    assert ahead - at_least <= 1


def test_a_schedule_can_be_entered_anywhere():
    whole = Schedule(SCENARIOS, 4, seed=1)
    batches = [whole.batch(step) for step in range(1, 20)]
    assert Schedule(SCENARIOS, 4, seed=1).batch(19) == batches[18]


def test_too_few_scenarios_for_a_step_are_refused():
    with pytest.raises(InputError, match="3 training scenarios are too few for 4 per step"):
        Schedule(SCENARIOS[:3], 4, seed=0)


def test_at_most_a_third_is_test_and_a_fifth_validation():
    splits = make_splits(SCENARIOS, validation=24, test=60, seed=0)
    assert (len(splits.train), len(splits.validation), len(splits.test)) == (14, 6, 10)


def test_nothing_is_in_two_splits():
    splits = make_splits(SCENARIOS, validation=3, test=4, seed=0)
    ids = [scenario.id for part in (splits.train, splits.validation, splits.test) for scenario in part]
    assert sorted(ids) == sorted(scenario.id for scenario in SCENARIOS)


def test_given_lists_are_used_as_they_are():
    splits = make_splits(SCENARIOS[:10], validation=0, test=SCENARIOS[20:], seed=0)
    assert (splits.train, splits.validation, splits.test) == (tuple(SCENARIOS[:10]), (), tuple(SCENARIOS[20:]))


def test_what_is_trained_on_cannot_be_the_test():
    copy = Scenario("copy", SCENARIOS[0].input)
    with pytest.raises(InputError, match="'copy' is in the train and in the test scenarios"):
        make_splits(SCENARIOS, validation=0, test=[copy], seed=0)


def test_too_few_to_hold_out_are_refused():
    with pytest.raises(InputError, match=r"4 scenarios are too few to hold out 24 for validation"):
        make_splits(SCENARIOS[:4], validation=24, test=0, seed=0)


def test_a_scenario_json_cannot_hold_is_refused():
    with pytest.raises(InputError, match="'odd' cannot be stored as JSON"):
        make_splits([Scenario("odd", {1, 2})], validation=0, test=0, seed=0)


def test_splits_are_read_back_equal(tmp_path):
    splits = make_splits(SCENARIOS, validation=3, test=0, seed=0)
    splits.write(tmp_path)
    assert Splits.read(tmp_path) == splits


def test_every_step_sees_the_tools_in_the_proportion_they_have():
    kinds = ["convert"] * 20 + ["now"] * 10
    scenarios = [Scenario(f"s{i}", i, metadata={"tool": kind}) for i, kind in enumerate(kinds)]
    schedule = Schedule(scenarios, 6, seed=0)
    counts = [sum(s.metadata["tool"] == "now" for s in schedule.batch(step)) for step in range(1, 6)]
    assert all(1 <= count <= 3 for count in counts)
    assert sum(counts) == 10


def test_half_a_character_is_refused_with_the_scenarios_name():
    scenarios = [Scenario("good", "a"), Scenario("bad", "\ud83d")]
    with pytest.raises(InputError, match="scenario 'bad' cannot be stored as JSON"):
        make_splits(scenarios, validation=0, test=0, seed=0)
