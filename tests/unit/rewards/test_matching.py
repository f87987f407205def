import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from art_core.rewards.matching import assign, same, similarity

JSON = st.recursive(
    st.one_of(st.booleans(), st.integers(-9, 9), st.floats(-9, 9), st.text(max_size=5), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=2), inner, max_size=3)),
    max_leaves=6,
)


@pytest.mark.parametrize(("one", "other"), [(1, 1.0), ("a", " a\n"), ([1, {"x": 2}], [1.0, {"x": 2.0}]), (None, None)])
def test_equal_as_json(one: object, other: object) -> None:
    assert same(one, other)


@pytest.mark.parametrize(
    ("one", "other"), [(1, True), (0, False), ("a", "A"), (1, "1"), ([1], [1, 2]), (None, 0), ({}, [])]
)
def test_not_equal_as_json(one: object, other: object) -> None:
    assert not same(one, other)


@pytest.mark.parametrize(
    ("expected", "given_", "close"),
    [
        ("Asia/Tokyo", "Asia/Seoul", 0.4 * (2 * 6 / 20) ** 2),
        ("Asia/Tokyo", "tokyo", 0.4 * (2 * 5 / 15) ** 2),
        ("America/New_York", "America/New York", 0.4 * (2 * 15 / 32) ** 2),
        ("14:30", "14:45", 0.4 * (2 * 3 / 10) ** 2),
        ("Asia/Tokyo", "Europe/Paris", 0.4 * (2 * 2 / 22) ** 2),
        (10, 9, 0.36),
        (5, "5", 0.4),
        (True, "true", 0.4),
        (True, False, 0.0),
        (["a", "b"], ["a"], 0.5),
        ({"a": 1, "b": 2}, {"a": 1, "c": 2}, 1 / 3),
        ("a", ["a"], 0.0),
    ],
)
def test_near_misses_earn_a_part(expected: object, given_: object, close: float) -> None:
    assert similarity(expected, given_) == pytest.approx(close)


@given(JSON, JSON)
def test_similarity_is_one_only_for_the_same(one: object, other: object) -> None:
    value = similarity(one, other)
    assert 0 <= value <= 1
    assert (value == 1) == same(one, other)


@given(
    st.integers(1, 4).flatmap(
        lambda n: st.lists(st.lists(st.integers(0, 9), min_size=n, max_size=n), min_size=1, max_size=4)
    )
)
def test_the_assignment_is_the_best_of_all(scores: list[list[int]]) -> None:
    rows, columns = len(scores), len(scores[0])
    pairs = assign(scores)
    if rows <= columns:
        options = [list(enumerate(p)) for p in itertools.permutations(range(columns), rows)]
    else:
        options = [
            [(row, column) for column, row in enumerate(p)] for p in itertools.permutations(range(rows), columns)
        ]
    assert len(set(pairs.values())) == len(pairs) == min(rows, columns)
    assert sum(scores[r][c] for r, c in pairs.items()) == max(sum(scores[r][c] for r, c in pick) for pick in options)


def test_nothing_is_assigned_to_nothing() -> None:
    assert assign([]) == assign([[], []]) == {}
