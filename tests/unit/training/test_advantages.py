"""T7 and T8: advantages of one group."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from art_core.errors import InputError
from art_core.training.advantages import group_advantages, has_spread, step_advantages

REWARDS = st.lists(st.floats(-100, 100), min_size=2, max_size=8)


def test_t7_population_std_is_used():
    # mean 2, population std 1 (the sample std would be sqrt(2))
    assert group_advantages([1.0, 3.0], epsilon=0.0) == [-1.0, 1.0]


def test_t7_epsilon_is_added_to_the_std():
    assert group_advantages([1.0, 3.0], epsilon=1.0) == [-0.5, 0.5]


def test_scale_none_leaves_differences():
    assert group_advantages([0.0, 1.0, 5.0], scale="none") == [-2.0, -1.0, 3.0]


@pytest.mark.parametrize("rewards", [[0.1, 0.1, 0.1], [7.0], [0.1, None, 0.1]])
def test_t7_equal_rewards_are_exactly_zero(rewards):
    assert group_advantages(rewards) == [None if reward is None else 0.0 for reward in rewards]


def test_t7_missing_reward_stays_missing_and_moves_nobody():
    assert group_advantages([1.0, None, 3.0], epsilon=0.0) == [-1.0, None, 1.0]


def test_no_rewards_no_advantages():
    assert group_advantages([]) == []
    assert group_advantages([None, None]) == [None, None]


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf])
def test_t7_non_finite_reward_is_refused(reward):
    with pytest.raises(InputError, match=f"a reward is {reward!r}"):
        group_advantages([1.0, reward])


def test_unknown_options_are_refused():
    with pytest.raises(InputError, match="scale 'max' is unknown; valid ones are 'std', 'none', 'batch'"):
        group_advantages([1.0, 2.0], scale="max")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="baseline 'best' is unknown; valid ones are 'mean', 'leave_one_out'"):
        group_advantages([1.0, 2.0], baseline="best")  # type: ignore[arg-type]


def test_leaving_oneself_out_compares_with_the_others():
    # 5 against the mean of 0 and 1, and so on
    assert group_advantages([0.0, 1.0, 5.0], scale="none", baseline="leave_one_out") == [-3.0, -1.5, 4.5]


def test_the_batch_scale_is_the_spread_of_all_rewards_of_the_step():
    # all six rewards: mean 1, population std sqrt((1 + 1 + 0 + 0 + 1 + 1) / 6); the means of the groups are 1, 1 and 1
    groups = [[0.0, 2.0], [1.0, None, 1.0], [0.0, 2.0]]
    size = 1 / math.sqrt(4 / 6)
    first, same, last = step_advantages(groups, scale="batch", epsilon=0.0)
    assert first == last == pytest.approx([-size, size])
    assert same == [0.0, None, 0.0]


def test_groups_do_not_touch_each_other_without_the_batch_scale():
    assert step_advantages([[0.0, 2.0], [0.0, 100.0]], epsilon=0.0) == [[-1.0, 1.0], [-1.0, 1.0]]


@given(rewards=REWARDS, shift=st.integers(-50, 50))
def test_t8_shift_changes_nothing(rewards, shift):
    if max(rewards) - min(rewards) < 1e-3:
        return
    moved = group_advantages([reward + shift for reward in rewards])
    assert moved == pytest.approx(group_advantages(rewards), abs=1e-6)


@given(rewards=REWARDS, factor=st.floats(0.01, 100))
def test_t8_scale_changes_nothing_when_divided_by_the_std(rewards, factor):
    if max(rewards) - min(rewards) < 1e-3:
        return
    scaled = group_advantages([reward * factor for reward in rewards], epsilon=0.0)
    assert scaled == pytest.approx(group_advantages(rewards, epsilon=0.0), abs=1e-6)


@given(rewards=REWARDS)
def test_advantages_sum_to_zero(rewards):
    assert math.fsum(group_advantages(rewards)) == pytest.approx(0.0, abs=1e-6)


def test_spread():
    assert has_spread([0.0, None, 1.0])
    assert not has_spread([0.5, None, 0.5])
    assert not has_spread([0.5])
