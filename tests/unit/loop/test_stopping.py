from __future__ import annotations

import pytest

from art_core.loop.config import TrainConfig
from art_core.loop.stopping import Clock, why_stop
from art_core.observe.ledger import Ledger

FREE = Clock(limit=None)


def train(step, updated=True, fate="no_spread"):
    ledger = Ledger()
    for _ in range(4):
        ledger.add_rollout(fate, sampled_tokens=3)
    return {"kind": "train", "step": step, "updated": updated, "ledger": ledger.to_dict()}


def validation(step, success, reward=0.0, label="step"):
    return {
        "kind": "eval",
        "split": "validation",
        "label": label,
        "step": step,
        "success": success,
        "reward": reward,
        "n": 10,
    }


def reason(rows, clock=FREE, **options):
    stop = why_stop(rows, TrainConfig(**options), clock)
    return stop and stop.reason


def test_it_goes_on_until_the_steps_are_done():
    assert reason([train(1)], steps=2) is None
    assert reason([train(1), train(2)], steps=2) == "steps"


def test_the_target_counts_for_trained_weights_only():
    assert reason([validation(0, 0.9, label="before")], target=0.9) is None
    assert reason([train(1), validation(1, 0.9)], target=0.9) == "target"


def test_the_target_is_the_mean_reward_where_success_is_unknown():
    assert reason([train(1), validation(1, None, reward=0.7)], target=0.7) == "target"


def test_patience_counts_validations_since_the_best():
    rows = [validation(0, 0.5, label="before"), validation(1, 0.6), validation(2, 0.6), validation(3, 0.4)]
    assert reason(rows, patience=3) is None
    assert reason(rows, patience=2) == "patience"


def test_flat_steps_count_in_a_row():
    assert reason([train(1, False), train(2), train(3, False)], flat_steps=2) is None
    assert reason([train(1), train(2, False), train(3, False)], flat_steps=2) == "no_spread"


@pytest.mark.parametrize(("spent", "expected"), [(50.0, None), (66.0, "max_time")])
def test_time_is_kept_for_the_last_evaluation(spent, expected):
    assert reason([train(1)], Clock(limit=100.0, spent=spent, step=10.0, closing=20.0)) == expected


def test_at_least_one_step_is_made():
    assert reason([], Clock(limit=1.0, spent=5.0)) is None


def test_patience_is_by_the_metric_of_validations_that_was_named():
    rows = [validation(0, 0.5, 0.1, label="before"), validation(1, 0.4, 0.2), validation(2, 0.3, 0.3)]
    assert reason(rows, patience=2) == "patience"
    assert reason(rows, patience=2, best_metric="reward") is None
    assert reason(rows, patience=2, best_metric="reward", best_mode="min") == "patience"
    assert reason(rows, patience=2, best_metric="loss", best_mode="min") == "patience"


def test_steps_that_trained_nothing_say_what_became_of_their_rollouts():
    same = why_stop([train(1, False), train(2, False)], TrainConfig(flat_steps=2), FREE)
    assert "all siblings scored the same" in same.text
    long = why_stop([train(1, False, "over_long"), train(2, False, "over_long")], TrainConfig(flat_steps=2), FREE)
    assert long.text == (
        "in 2 steps in a row nothing could be trained; of 8 rollouts: 8 over long (longer than a training row may be)"
    )
