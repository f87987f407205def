"""T24: the schedule counts updates, clipping comes once after all gradients, and nothing non-finite is applied."""

from __future__ import annotations

import math

import pytest
import torch

from art_core.errors import InputError, NonFiniteError
from art_core.training.config import TrainingConfig
from art_core.training.optim import Optimizer, learning_rate


def parameter(*values, dtype=torch.float32):
    return torch.nn.Parameter(torch.tensor(values, dtype=dtype))


def test_t24_constant_rate_with_warmup():
    config = TrainingConfig(learning_rate=1.0, warmup_updates=4)
    assert [learning_rate(config, n) for n in (0, 1, 3, 4, 99)] == [0.25, 0.5, 1.0, 1.0, 1.0]


def test_t24_linear_rate_reaches_zero_at_the_end():
    config = TrainingConfig(learning_rate=1.0, warmup_updates=2, schedule="linear", total_updates=6)
    assert [learning_rate(config, n) for n in range(8)] == [0.5, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0, 0.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schedule": "linear"}, "needs total_updates"),
        ({"total_updates": 9}, "only used by schedule 'linear'"),
        ({"schedule": "linear", "total_updates": 3, "warmup_updates": 3}, "warmup_updates must be below"),
        ({"betas": (0.9, 1.0)}, r"betas must be in \[0, 1\)"),
        ({"clip_low": 1.5}, "clip_low = 1.5"),
        ({"loss": "ppo"}, "loss = 'ppo'"),
        ({"loss": "reinforce", "passes": 2}, "more than one pass over the same samples needs another loss"),
        ({"loss": "reinforce", "clip_high": 0.5}, "clip_high = 0.5 has no effect"),
        ({"clip_low": 0.1}, "clip_low = 0.1 has no effect"),  # in the only pass every ratio is 1
        ({"constant_length": 99}, "constant_length = 99 has no effect"),
        ({"kl_estimator": "k3"}, "kl_estimator = 'k3' has no effect"),
        ({"kl_reference": "start"}, "kl_reference = 'start' has no effect"),
        ({"rollout_ratio": (1.1, 1.2)}, "must be a bound below 1 and one above"),
        ({"learning_rate": 0}, "learning_rate = 0"),
        ({"nonsense": 1}, "unknown option 'nonsense'"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        TrainingConfig.build(options)


def test_first_adamw_update_moves_by_the_learning_rate():
    p = parameter(1.0, -1.0)
    optimizer = Optimizer({"p": p}, TrainingConfig(learning_rate=0.1, max_grad_norm=100.0))
    p.grad = torch.tensor([3.0, -4.0])
    assert optimizer.update() == (5.0, 0.1)
    assert torch.allclose(p, torch.tensor([0.9, -0.9]))
    assert p.grad is None
    assert optimizer.updates == 1


def test_t24_the_norm_is_reported_before_clipping_and_clipped_over_all_parameters():
    seen = {}
    for limit in (1.0, 1000.0):
        p, q = parameter(0.0), parameter(0.0)
        optimizer = Optimizer({"p": p, "q": q}, TrainingConfig(max_grad_norm=limit))
        p.grad, q.grad = torch.tensor([3.0]), torch.tensor([4.0])
        norm, _ = optimizer.update()
        seen[limit] = (norm, optimizer.tensors()["p:exp_avg"].item())
    assert seen[1.0] == (5.0, pytest.approx(0.06, abs=1e-4))  # (1 - beta) * 3 / 5
    assert seen[1000.0] == (5.0, pytest.approx(0.3, abs=1e-4))


def test_weight_decay_is_decoupled():
    p = parameter(2.0)
    optimizer = Optimizer({"p": p}, TrainingConfig(learning_rate=0.1, weight_decay=0.5))
    p.grad = torch.tensor([0.0])
    optimizer.update()
    assert p.item() == pytest.approx(2.0 * (1 - 0.1 * 0.5))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_non_finite_gradient_changes_nothing(bad):
    p = parameter(1.0)
    optimizer = Optimizer({"layer.lora_A": p}, TrainingConfig())
    p.grad = torch.tensor([bad])
    with pytest.raises(NonFiniteError, match=r"layer\.lora_A"):
        optimizer.update()
    assert (p.item(), optimizer.updates) == (1.0, 0)


def test_small_types_become_float32_in_place():
    p = parameter(1.0, dtype=torch.bfloat16)
    Optimizer({"p": p}, TrainingConfig())
    assert p.dtype == torch.float32


def test_nothing_to_train_is_refused():
    with pytest.raises(InputError, match="attach a LoRA adapter first"):
        Optimizer({}, TrainingConfig())


def test_state_of_another_model_is_refused():
    optimizer = Optimizer({"p": parameter(1.0)}, TrainingConfig())
    with pytest.raises(InputError, match="'q:exp_avg'"):
        optimizer.load({"q:exp_avg": torch.zeros(1)}, 3)
    with pytest.raises(InputError, match=r"shape \(2,\) does not fit"):
        optimizer.load({"p:exp_avg": torch.zeros(2)}, 3)
    assert optimizer.updates == 0
