"""T26 of the command line: every option of the training verbs has a place in the configuration and reaches it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from art_core.cli.options import _FIELDS, TrainOptions
from art_core.cli.sft import SftOptions
from art_core.loop.config import TrainConfig
from art_core.supervised.config import SftConfig
from tests.knobs import flat, leaves

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
    "warm_start": "runs/c",
    "warm_start_min_reward": 0.5,
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
SFT_OPTIONS: dict[str, Any] = {
    "start_from": "runs/a",
    "epochs": 7,
    "batch_rows": 5,
    "learning_rate": 0.1,
    "rank": 3,
    "max_time": "5m",
    "min_reward": 0.5,
    "best": 2,
    "validation_share": 0.2,
    "max_row_tokens": 9,
    "seed": 3,
    "precision": "float32",
    "name": "n",
    "out": "o",
}
SFT_ELSEWHERE = {"start_from": "lora.start", "rank": "lora.rank"}
"""Options whose field has another name."""
OF_THE_PROGRAM = {"model", "resume", "json_output", "quiet"}


def test_every_option_of_the_command_line_has_a_place() -> None:
    assert {one.name for one in dataclasses.fields(TrainOptions)} == set(_FIELDS) | OF_THE_PROGRAM
    assert {".".join(path) for path in _FIELDS.values()} <= set(leaves(TrainConfig))
    assert set(OPTIONS) | {"best_mode"} == set(_FIELDS)


@pytest.mark.parametrize("option", _FIELDS)
def test_every_option_reaches_its_field_and_no_other(option: str) -> None:
    needs = {"best_mode": {"best_metric": "reward"}}
    needs["start_from"] = {"lora": {"start": "runs/first"}}  # whether there is one decides the learning rate too
    needs |= {key: {"warm_start": {"run": "runs/other"}} for key in ("warm_start", "warm_start_min_reward")}
    base = TrainConfig.build(needs.get(option, {}))
    changed = TrainOptions(**{option: OPTIONS.get(option, "min")}).config(base)
    before, after = flat(base), flat(changed)
    assert {path for path in after if after[path] != before[path]} == {".".join(_FIELDS[option])}


def test_every_option_of_fine_tuning_has_a_place() -> None:
    assert {one.name for one in dataclasses.fields(SftOptions)} == set(SFT_OPTIONS) | OF_THE_PROGRAM
    assert {SFT_ELSEWHERE.get(name, name) for name in SFT_OPTIONS} <= set(leaves(SftConfig))


@pytest.mark.parametrize("option", SFT_OPTIONS)
def test_every_option_of_fine_tuning_reaches_its_field_and_no_other(option: str) -> None:
    before, after = flat(SftConfig()), flat(SftOptions(**{option: SFT_OPTIONS[option]}).config(SftConfig()))
    assert {path for path in after if after[path] != before[path]} == {SFT_ELSEWHERE.get(option, option)}
