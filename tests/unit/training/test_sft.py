"""Supervised fine-tuning: the gradient is that of the cross entropy of a plain padded batch, however rows are packed."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from art_core.training.config import LossRule
from art_core.training.loss import LossInputs, policy_loss
from art_core.training.sft import SftTrainer

from .tiny import build, gradient, lora, row, step_rows, weights


def padded_cross_entropy(model, rows):
    """Mean cross entropy of the trained tokens by torch alone; leaves its gradient in ``model``."""
    longest = max(len(one.token_ids) for one in rows)
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    labels = torch.full((len(rows), longest), -100)
    for index, one in enumerate(rows):
        size = len(one.token_ids)
        ids[index, :size] = torch.from_numpy(one.token_ids)
        labels[index, :size] = torch.where(torch.from_numpy(one.mask), ids[index, :size], -100)
    logits = model(ids).logits[:, :-1]
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())
    loss.backward()
    return loss.item()


def kept_gradient(trainer, rows):
    """The gradient of an update, taken before the optimizer uses it."""
    kept = []
    trainer._optimizer.update = lambda: (kept.append(gradient(trainer.model).clone()), (0.0, 0.0))[1]
    loss = trainer.update(rows).loss
    return loss, kept[0]


@pytest.mark.parametrize("micro_batch_tokens", [16, 64, 4096])
@pytest.mark.parametrize("family", ["llama-untied", "qwen3"])
def test_loss_and_gradient_are_those_of_the_plain_cross_entropy(family, micro_batch_tokens):
    rows, plain = step_rows()[0], lora(family)
    expected = padded_cross_entropy(plain, rows)
    trainer = SftTrainer(lora(family), updates=9, micro_batch_tokens=micro_batch_tokens)
    loss, found = kept_gradient(trainer, rows)
    assert loss == pytest.approx(expected, rel=1e-5)
    assert torch.allclose(found, gradient(plain), atol=1e-6, rtol=1e-4)


def test_a_full_model_can_be_trained_too():
    rows, plain = step_rows()[0], build()
    padded_cross_entropy(plain, rows)
    assert torch.allclose(kept_gradient(SftTrainer(build(), updates=9), rows)[1], gradient(plain), atol=1e-6)


def test_what_somebody_else_sampled_them_with_means_nothing():
    rows = step_rows()[0]
    other = [dataclasses.replace(one, logprobs=one.logprobs * 0) for one in rows]
    results = []
    for given in (rows, other):
        trainer = SftTrainer(lora(), updates=9)
        trainer.update(given)
        results.append(weights(trainer.model))
    assert torch.equal(*results)


def test_the_loss_by_hand():
    tokens = torch.tensor([-1.0, -3.0, -5.0])
    output = policy_loss(
        LossInputs(
            new_logprobs=tokens,
            behaviour_logprobs=torch.tensor([-9.0, 0.0, -5.0]),
            advantages=torch.ones(3),
            weights=torch.full((3,), 0.5),
            mask=torch.tensor([True, True, False]),
        ),
        LossRule(objective="likelihood"),
    )
    assert float(output.loss) == 2.0


def test_the_validation_loss_is_that_of_an_update_and_changes_nothing():
    rows = step_rows()[0]
    trainer = SftTrainer(lora(), updates=9)
    before = weights(trainer.model)
    loss, tokens = trainer.mean_loss(rows)
    assert torch.equal(weights(trainer.model), before)
    report = trainer.update(rows)
    assert (loss, tokens) == (pytest.approx(report.loss, rel=1e-6), report.tokens)


def test_updates_make_the_rows_likely():
    # this model's bounded logits allow no loss below 0.67
    rows = [row([1, 2, 3, 4], [2, 3]), row([1, 9, 8, 7, 6], [3, 4])]
    trainer = SftTrainer(lora(), updates=60, learning_rate=1e-2)
    losses = [trainer.update(rows).loss for _ in range(60)]
    assert losses[-1] < 0.7 < 6.0 < losses[0]


def test_the_rate_falls_to_nothing_at_the_end_or_stays():
    rows = step_rows()[0]
    falling = SftTrainer(lora(), updates=2, learning_rate=1e-3)
    assert [falling.update(rows).learning_rate for _ in range(3)] == [1e-3, 5e-4, 0.0]
    steady = SftTrainer(lora(), updates=2, learning_rate=1e-3, schedule="constant")
    assert [steady.update(rows).learning_rate for _ in range(3)] == [1e-3] * 3
