from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from art_core.loop.intervals import bootstrap_mean, newcombe_paired, wilson


def pairs(both, gained, lost, neither):
    before = [True] * both + [False] * gained + [True] * lost + [False] * neither
    after = [True] * both + [True] * gained + [False] * lost + [False] * neither
    return before, after


def test_wilson_gives_the_published_figures():
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(15, 148) == pytest.approx((0.0624, 0.1605), abs=5e-5)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)


def test_wilson_of_nothing_is_unknown():
    assert wilson(0, 0) is None


def test_newcombe_gives_the_published_figures():
    assert newcombe_paired(*pairs(36, 12, 2, 0)) == pytest.approx((0.0569, 0.3404), abs=5e-5)


def test_newcombe_does_not_pretend_certainty_when_nothing_changed():
    low, high = newcombe_paired(*pairs(0, 0, 0, 10))
    assert low == pytest.approx(-0.2775, abs=5e-5)
    assert high == -low


@given(st.tuples(*[st.integers(0, 12)] * 4).filter(any))
def test_newcombe_holds_the_difference_and_stays_in_range(counts):
    both, gained, lost, neither = counts
    low, high = newcombe_paired(*pairs(*counts))
    assert -1 - 1e-9 <= low <= (gained - lost) / (both + gained + lost + neither) <= high <= 1 + 1e-9


@given(st.tuples(*[st.integers(0, 12)] * 4).filter(any))
def test_newcombe_mirrors_when_before_and_after_change_places(counts):
    before, after = pairs(*counts)
    low, high = newcombe_paired(before, after)
    assert newcombe_paired(after, before) == pytest.approx((-high, -low))


def test_bootstrap_is_the_same_every_time():
    values = [0.0, 0.25, 0.5, 1.0]
    assert bootstrap_mean(values) == bootstrap_mean(values)


def test_bootstrap_is_near_the_normal_interval_for_many_values():
    low, high = bootstrap_mean([0.0] * 500 + [1.0] * 500)
    assert (low, high) == pytest.approx((0.469, 0.531), abs=0.004)


def test_bootstrap_of_one_value_is_unknown():
    assert bootstrap_mean([1.0]) is None
