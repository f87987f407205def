"""T26 of the command line: every option of the training verbs has a place in the configuration and reaches it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from art_core.cli.options import _FIELDS, TrainOptions
from art_core.loop.config import TrainConfig
from tests.unit.loop.test_no_dead_knobs import leaves

OPTIONS: dict[str, Any] = {
    "steps": 7,
    "max_time": "5m",
    "target": 0.5,
    "patience": 2,
    "keep_checkpoints": 1,
    "best_metric": "reward",
    "seed": 3,
    "deterministic": True,
    "start_from": "runs/a",
    "name": "n",
    "out": "o",
    "precision": "float32",
    "group_size": 3,
    "trained_per_group": 2,
    "scenarios_per_step": 2,
    "curriculum": "pass_rate",
    "concurrency": 5,
    "temperature": 0.7,
    "max_tokens": 9,
    "learning_rate": 0.1,
    "rank": 3,
    "eval_every": 2,
    "validation": 5,
    "test": 6,
}
OF_THE_PROGRAM = {"model", "resume", "json_output", "quiet"}


def test_every_option_of_the_command_line_has_a_place() -> None:
    assert {one.name for one in dataclasses.fields(TrainOptions)} == set(_FIELDS) | OF_THE_PROGRAM
    assert {".".join(path) for path in _FIELDS.values()} <= set(leaves(TrainConfig))
    assert set(OPTIONS) | {"best_mode"} == set(_FIELDS)


@pytest.mark.parametrize("option", _FIELDS)
def test_every_option_reaches_its_field_and_no_other(option: str) -> None:
    base = TrainConfig(best_metric="reward") if option == "best_mode" else TrainConfig()
    changed = TrainOptions(**{option: OPTIONS.get(option, "min")}).config(base)
    before, after = flat(base), flat(changed)
    assert {path for path in after if after[path] != before[path]} == {".".join(_FIELDS[option])}


def flat(config: Any) -> dict[str, Any]:
    def value(path: str) -> Any:
        one = config
        for name in path.split("."):
            one = getattr(one, name)
        return one

    return {path: value(path) for path in leaves(type(config))}
