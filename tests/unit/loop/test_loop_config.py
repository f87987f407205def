from __future__ import annotations

import math
import tomllib

import pytest

from art_core.errors import InputError
from art_core.loop.config import RolloutConfig, TrainConfig, parse_duration
from art_core.loop.toml import dump_toml
from art_core.rollout.limits import Limits


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10m", 600), ("1h", 3600), ("1h30m", 5400), ("45", 45), (2.5, 2.5), ("1.5h", 5400)],
)
def test_durations_are_understood(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "ten", "5x", "10m5", "-3s", "0", 0, True, None, float("inf")])
def test_other_durations_are_refused(text):
    with pytest.raises(InputError, match="duration"):
        parse_duration(text)


def test_an_unknown_key_is_named_with_the_valid_ones():
    with pytest.raises(InputError, match=r"unknown option 'rollout.groupsize'; valid ones here: .*group_size"):
        TrainConfig.build({"rollout": {"groupsize": 4}})


def test_an_epsilon_without_a_divisor_is_refused():
    with pytest.raises(InputError, match=r"advantage_epsilon = 0\.1 has no effect with advantage_scale 'none'"):
        TrainConfig.build({"advantage_scale": "none", "advantage_epsilon": 0.1})


def test_a_target_needs_validation():
    with pytest.raises(InputError, match="target needs validation scenarios"):
        TrainConfig.build({"target": 0.5, "evaluation": {"validation": 0}})


def test_the_start_as_reference_needs_a_start():
    training = {"kl_coefficient": 0.1, "kl_reference": "start"}
    with pytest.raises(InputError, match="needs an adapter to start from"):
        TrainConfig.build({"training": training})
    assert TrainConfig.build({"training": training, "lora": {"start": "runs/a"}}).lora.start == "runs/a"


@pytest.mark.parametrize(
    ("values", "rate"),
    [
        ({}, 5e-4),
        ({"lora": {"start": "runs/a"}}, 1e-4),
        ({"warm_start": {"run": "collected"}}, 1e-4),
        ({"warm_start": {"run": "collected"}, "training": {"passes": 2}}, 1e-4),
        ({"warm_start": {"run": "collected"}, "training": {"learning_rate": 3e-4}}, 3e-4),
    ],
)
def test_what_begins_from_an_adapter_learns_gently_unless_told_how_fast(values, rate):
    config = TrainConfig.build(values)
    assert config.training.learning_rate == rate
    assert TrainConfig.build(config.to_dict()) == config


def test_what_a_run_took_over_from_its_start_is_not_asked_again():
    stored = TrainConfig.build({"lora": {"start": "runs/a", "rank": 4, "alpha": 9.0, "targets": ["q_proj"]}})
    assert stored.resumed(TrainConfig.build({"lora": {"start": "runs/a"}})).lora == stored.lora
    with pytest.raises(InputError, match=r"lora\.rank is 4 in the run and 8 now"):
        stored.resumed(TrainConfig.build({"lora": {"start": "runs/a", "rank": 8}}))
    with pytest.raises(InputError, match=r"lora\.start is 'runs/a' in the run and 'runs/b' now"):
        stored.resumed(TrainConfig.build({"lora": {"start": "runs/b"}}))


def test_a_deterministic_run_has_no_limit_of_time():
    with pytest.raises(InputError, match=r"^max_time = 600 s would let the clock decide when a deterministic run ends"):
        TrainConfig.build(deterministic=True, max_time="10m")


@pytest.mark.parametrize(
    ("deterministic", "precision", "computed"),
    [(True, "auto", "float32"), (True, "bfloat16", "bfloat16"), (False, "auto", "auto")],
)
def test_a_deterministic_run_measures_no_precision(deterministic, precision, computed):
    assert TrainConfig(deterministic=deterministic, precision=precision).computed_in == computed


def test_a_run_does_not_become_deterministic_halfway():
    with pytest.raises(InputError, match=r"deterministic is False in the run and True now"):
        TrainConfig().resumed(TrainConfig(deterministic=True))


def test_a_resumed_run_may_change_its_limits_only():
    stored = TrainConfig(steps=3)
    assert stored.resumed(TrainConfig(steps=9, max_time="1m")).steps == 9
    with pytest.raises(InputError, match=r"training.learning_rate is 0.0005 in the run and 0.1 now"):
        stored.resumed(TrainConfig.build({"training": {"learning_rate": 0.1}}))


def test_a_configuration_survives_toml():
    config = TrainConfig.build({"max_time": "10m", "rollout": {"limits": {"seconds": 5.0}}, "name": "a"})
    assert TrainConfig.build(tomllib.loads(dump_toml(config.to_dict()))) == config


def test_toml_is_read_back_equal():
    values = {
        "a": 'quote " and \\ and \n and \x7f ü',
        "b c": [1, 2.5, True],
        "t": {"x": {"deep": "y"}, "l": [{"k": 1}]},
        "e": {},
    }
    assert tomllib.loads(dump_toml(values)) == values


def test_what_toml_cannot_hold_is_refused():
    with pytest.raises(InputError, match=r"a.b = <object"):
        dump_toml({"a": {"b": object()}})


def test_no_limit_is_written_inf_and_read_back():
    config = TrainConfig(rollout=RolloutConfig(limits=Limits(seconds=math.inf)))
    assert TrainConfig.build(config.to_dict()) == config
    with pytest.raises(InputError, match="limit seconds must be a number of seconds above 0, got -1"):
        TrainConfig.build(rollout={"limits": {"seconds": -1}})
