import math

import pytest

from art_core.errors import InputError
from art_core.rollout.limits import Limits


def test_defaults() -> None:
    limits = Limits()
    assert (limits.turns, limits.tokens, limits.tool_calls, limits.seconds) == (16, 8192, 64, 300.0)


@pytest.mark.parametrize("name", ["turns", "tokens", "tool_calls"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, None])
def test_a_count_must_be_a_positive_whole_number(name, value) -> None:
    with pytest.raises(InputError, match=f"limit {name} must be a whole number of at least 1, got {value!r}"):
        Limits(**{name: value})


@pytest.mark.parametrize("name", ["seconds", "reward_seconds", "close_seconds"])
@pytest.mark.parametrize("value", [0, -0.1, math.nan, True, "9"])
def test_a_duration_must_be_positive(name, value) -> None:
    with pytest.raises(InputError, match=f"limit {name} must be a number of seconds above 0"):
        Limits(**{name: value})


def test_a_duration_may_be_unbounded() -> None:
    assert Limits(seconds=math.inf).seconds == math.inf
