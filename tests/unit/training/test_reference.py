"""T18: the model that the policy is held to, with its adapter on and off, and the policy untouched by looking at it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from art_core.training.checkpoint import load, save
from art_core.training.trainer import GrpoTrainer, TrainingConfig

from .tiny import build, lora, step_rows, weights

TO_START = TrainingConfig(kl_coefficient=0.1, kl_reference="start", learning_rate=1e-2)


def moved(config=TO_START, steps=2):
    """A trainer whose weights are no longer those it was made with."""
    trainer = GrpoTrainer(lora(), config)
    for number in range(steps):
        trainer.step(*step_rows(number))
    return trainer


def alone(samples):
    """Logprobs of the starting adapter by plain forward passes of a model that has nothing else."""
    model, result = lora(), []
    for sample in samples:
        with torch.no_grad():
            table = model(torch.from_numpy(sample.token_ids)[None]).logits[0].log_softmax(-1)
        own = table[torch.arange(len(sample.token_ids) - 1), torch.from_numpy(sample.token_ids)[1:]]
        result.append(np.where(sample.mask, np.r_[0.0, own.numpy()], 0.0))
    return result


def test_t18_the_start_is_the_adapter_it_was_made_with():
    samples, _ = step_rows(7)
    trainer = moved()
    before = weights(trainer.model)
    for found, expected in zip(trainer._reference_logprobs(samples), alone(samples), strict=True):
        assert found == pytest.approx(expected, abs=1e-5)
    assert torch.equal(weights(trainer.model), before)
    assert not torch.equal(before, weights(lora()))


def test_t18_the_base_is_the_model_without_its_adapter():
    samples, _ = step_rows(7)
    trainer = moved(TrainingConfig(kl_coefficient=0.1, learning_rate=1e-2))
    plain = GrpoTrainer(build().requires_grad_(True)).logprobs(samples)
    for found, expected in zip(trainer._reference_logprobs(samples), plain, strict=True):
        assert found == pytest.approx(expected, abs=1e-5)


def test_t18_a_pass_that_fails_leaves_the_policy_bit_identical():
    samples, _ = step_rows(7)
    trainer = moved()
    before = weights(trainer.model)
    outside = dataclasses.replace(samples[0], token_ids=samples[0].token_ids + 100_000)
    with pytest.raises(ValueError, match="the model's ids run from 0"):
        trainer._reference_logprobs([*samples[1:], outside])
    assert torch.equal(weights(trainer.model), before)


def test_the_divergence_from_the_start_is_zero_until_something_moved():
    trainer = GrpoTrainer(lora(), TO_START)
    assert trainer.step(*step_rows()).kl_base == 0.0
    assert trainer.step(*step_rows()).kl_base > 0.0


def test_a_resumed_trainer_keeps_the_reference_and_goes_on_bit_for_bit(tmp_path):
    whole = moved(steps=2)
    save(tmp_path / "c", whole, chat_template="")
    again = GrpoTrainer(lora(), TO_START)
    load(tmp_path / "c", again)
    reports = [trainer.step(*step_rows(5)) for trainer in (whole, again)]
    assert reports[0].kl_base == reports[1].kl_base > 0
    assert torch.equal(weights(whole.model), weights(again.model))


def test_the_start_needs_no_adapter_to_take_off():
    assert GrpoTrainer(build(), TO_START).step(*step_rows()).kl_base == 0.0
