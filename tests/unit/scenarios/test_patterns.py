import random
import re

import pytest

from art_core.scenarios.patterns import draw_pattern
from art_core.scenarios.schema import NoValue


@pytest.mark.parametrize(
    "pattern",
    ["^[a-z0-9_-]{3,16}$", r"^\d{4}-\d{2}$", "^(red|green|blue)$", r"^v\d+(\.\d+){1,2}$", "^[A-Fa-f0-9]+?$", "a?b*c.", "^[]x]$", r"\w+@\w+"],
)  # fmt: skip
def test_what_is_drawn_matches(pattern: str) -> None:
    for seed in range(20):
        assert re.search(pattern, draw_pattern(pattern, random.Random(seed)))


@pytest.mark.parametrize("pattern", ["^(?=a)b", "[^a]", r"(a)\1", "(a", "[a", "*a", r"\p{L}", "a)"])
def test_what_it_does_not_know_is_refused(pattern: str) -> None:
    with pytest.raises(NoValue, match="pattern"):
        draw_pattern(pattern, random.Random(0))
