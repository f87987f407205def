from hypothesis import given
from hypothesis import strategies as st

from art_core.randomness import fold, rng, uniform


def test_a_key_is_the_same_everywhere() -> None:
    assert fold(0, 3, "s1", 2) == 4485077605019162906


def test_parts_are_kept_apart() -> None:
    keys = [fold("a", "b"), fold("ab"), fold("a b"), fold("b", "a"), fold(1), fold("1"), fold(1.0), fold(True), fold()]
    assert len(set(keys)) == len(keys)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_a_draw_is_strictly_between_0_and_1(key, counter) -> None:
    assert 0.0 < uniform(key, counter) < 1.0


def test_the_largest_draw_is_below_1(monkeypatch) -> None:
    monkeypatch.setattr(
        "hashlib.blake2b", lambda data, digest_size: type("Ones", (), {"digest": lambda self: b"\xff" * 8})()
    )
    assert uniform(0, 0) < 1.0


def test_draws_are_spread_evenly() -> None:
    draws = [uniform(fold("spread"), counter) for counter in range(4000)]
    counts = [sum(index / 8 <= draw < (index + 1) / 8 for draw in draws) for index in range(8)]
    assert all(400 < count < 600 for count in counts)


def test_draws_do_not_depend_on_what_was_drawn_before() -> None:
    forward = [uniform(7, counter) for counter in range(5)]
    assert [uniform(7, counter) for counter in reversed(range(5))] == forward[::-1]


def test_a_generator_is_a_function_of_its_parts() -> None:
    assert rng(1, "x").random() == rng(1, "x").random()
    assert rng(1, "x").random() != rng(2, "x").random()
