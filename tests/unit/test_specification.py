"""What a correct trainer must pass, by number: each has a test somewhere under ``tests`` that names it in its docstring or in
its own name, so that a reader finds the proof of each promise, and a promise without a proof fails here."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

SPECIFICATION = {
    1: "loss and gradient of every variant equal a hand-computed example",
    2: "the gradient is the same for every split, order and packing of the rows",
    3: "what else is computed along with a row changes nothing",
    4: "NaN or infinity in what is masked changes nothing",
    5: "on policy the ratio is 1 and the divergence 0; sampler and trainer agree",
    6: "the mean importance ratio is 1 at other temperatures, and a wrong temperature is noticed",
    7: "equal rewards, single members and missing rewards; which standard deviation",
    8: "a shift of the rewards changes nothing, nor does a scale where the spread divides",
    9: "exactly the sampled ids are trained, the stop token included",
    10: "a row of several turns equals one row per turn",
    11: "a shared prefix is trained once; the weight of a rollout is independent of its forks",
    12: "interleaved sub-agents give two rows",
    13: "the next prompt begins with the ids so far, over many chat templates; else a counted fork",
    14: "a pad that is the end, two ends, no end, an end in a tool's text",
    15: "one beginning of text",
    16: "what is constant in a loss carries no gradient",
    17: "asymmetric bounds at their edges",
    18: "the divergence from a reference in each of its forms",
    19: "an adapter equals its folded weights, in every scaling; off it is the base; a wrong one is refused",
    20: "the drift between precisions is a metric",
    21: "killed anywhere and resumed, a run is the one it would have been",
    22: "stale samples are never trained; every sampled token has one version",
    23: "no rows, no spread, one row",
    24: "clipping after accumulation; the schedule counts updates",
    25: "the same seed twice is equal to the bit",
    26: "every option changes something or is refused",
    27: "logprobs of sampling equal a fresh forward pass",
    28: "every scenario comes in turn, none twice and none lost, over epochs and resumes",
    29: "a bandit and a task of two turns with a tool are learnt",
    30: "a reference in plain loops and float64 agrees",
}


@cache
def named() -> dict[int, list[str]]:
    """Number → the tests that name it, as ``file::test``."""
    found: dict[int, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        if path == Path(__file__):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        where = str(path.relative_to(TESTS))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                numbers = _numbers(ast.get_docstring(node) or "")
                if match := re.match(r"test_t(\d+)_", node.name):
                    numbers.append(int(match[1]))
                for number in numbers:
                    found.setdefault(number, []).append(f"{where}::{node.name}")
    return found


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\bT(\d{1,2})\b", text)]


@pytest.mark.parametrize("number", SPECIFICATION)
def test_every_number_has_a_test(number: int) -> None:
    assert named().get(number), f"no test names T{number}: {SPECIFICATION[number]}"


def test_no_test_names_a_number_there_is_not() -> None:
    assert set(named()) <= set(SPECIFICATION)
    assert len(SPECIFICATION) == 30
