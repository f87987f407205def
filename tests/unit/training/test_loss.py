"""T1, T4, T5, T16 and T17: the loss on two rows of three tokens, against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from art_core.training.loss import LossInputs, TokenStats, policy_loss

CLIP = {"clip_low": 0.2, "clip_high": 0.3}
# ratios e^(new - behaviour); the third token of the second row is context
RATIOS = torch.tensor([[1.0, 1.5, 0.5], [1.5, 0.5, 1.0]])
ADVANTAGES = torch.tensor([[2.0, 2.0, 2.0], [-1.0, -1.0, -1.0]])
MASK = torch.tensor([[True, True, True], [True, True, False]])


def inputs(new, *, behaviour=None, advantages=ADVANTAGES, mask=MASK):
    behaviour = torch.full_like(new, -2.0) if behaviour is None else behaviour
    return LossInputs(new_logprobs=new, behaviour_logprobs=behaviour, advantages=advantages, mask=mask)


def new_logprobs():
    return (RATIOS.log() - 2.0).requires_grad_()


def test_t1_loss_by_hand():
    # row 1: -2*1, -2*1.3 (clipped), -2*0.5; row 2: +1*1.5, +1*0.8 (clipped) -> (-2 - 2.6 - 1 + 1.5 + 0.8) / 5
    output = policy_loss(inputs(new_logprobs()), normaliser=5, **CLIP)
    assert output.loss.item() == pytest.approx(-0.66, abs=1e-6)


def test_t1_gradient_by_hand():
    # d(-r A)/d(new) = -r A, and 0 where clipped
    new = new_logprobs()
    policy_loss(inputs(new), normaliser=5, **CLIP).loss.backward()
    expected = [[-0.4, 0.0, -0.2], [0.3, 0.0, 0.0]]
    assert torch.allclose(new.grad, torch.tensor(expected), atol=1e-6)


def test_stats_by_hand():
    stats = policy_loss(inputs(new_logprobs()), normaliser=5, **CLIP).stats
    assert (stats.tokens, stats.clipped) == (5, 2)
    assert stats.ratio == pytest.approx(5.0, abs=1e-5)
    logs = [math.log(ratio) for ratio in (1.0, 1.5, 0.5, 1.5, 0.5)]
    assert stats.kl == pytest.approx(-sum(logs), abs=1e-5)
    assert stats.surprise == pytest.approx(10.0 - sum(logs), abs=1e-5)


def test_stats_add_up():
    total = TokenStats(tokens=1, ratio=2.0, clipped=3, kl=4.0, surprise=5.0) + TokenStats(tokens=1, ratio=0.5)
    assert total == TokenStats(tokens=2, ratio=2.5, clipped=3, kl=4.0, surprise=5.0)


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["new", "behaviour", "advantages"])
def test_t4_masked_poison_changes_nothing(poison, where):
    new, behaviour, advantages = new_logprobs().detach().clone(), torch.full((2, 3), -2.0), ADVANTAGES.clone()
    {"new": new, "behaviour": behaviour, "advantages": advantages}[where][1, 2] = poison
    new.requires_grad_()
    clean, dirty = new_logprobs(), inputs(new, behaviour=behaviour, advantages=advantages)
    expected, output = (policy_loss(i, normaliser=5, **CLIP) for i in (inputs(clean), dirty))
    for loss in (expected.loss, output.loss):
        loss.backward()
    assert output.loss == expected.loss
    assert output.stats == expected.stats
    assert torch.equal(new.grad, clean.grad)


def test_t5_on_policy_ratio_is_one_and_kl_zero():
    new = torch.tensor([-0.3, -5.0, -0.001])
    on_policy = LossInputs(
        new_logprobs=new, behaviour_logprobs=new.clone(), advantages=torch.ones(3), mask=torch.ones(3, dtype=torch.bool)
    )
    stats = policy_loss(on_policy, normaliser=3, **CLIP).stats
    assert (stats.ratio, stats.kl, stats.clipped) == (3.0, 0.0, 0)


@pytest.mark.parametrize(
    ("ratio", "advantage", "moves"),
    [
        (1.29, 1.0, True),
        (1.31, 1.0, False),
        (0.1, 1.0, True),
        (0.81, -1.0, True),
        (0.79, -1.0, False),
        (9.0, -1.0, True),
    ],
)
def test_t17_bounds_are_asymmetric(ratio, advantage, moves):
    new = torch.tensor([math.log(ratio)], requires_grad=True)
    one = LossInputs(
        new_logprobs=new,
        behaviour_logprobs=torch.zeros(1),
        advantages=torch.tensor([advantage]),
        mask=torch.tensor([True]),
    )
    output = policy_loss(one, normaliser=1, **CLIP)
    output.loss.backward()
    assert new.grad.item() == pytest.approx(-ratio * advantage if moves else 0.0, abs=1e-5)
    assert output.stats.clipped == int(not moves)


def test_t17_at_the_exact_edge_the_gradient_is_whole():
    new = torch.zeros(1, requires_grad=True)
    edge = LossInputs(
        new_logprobs=new, behaviour_logprobs=torch.zeros(1), advantages=torch.ones(1), mask=torch.tensor([True])
    )
    policy_loss(edge, clip_low=0.0, clip_high=0.0, normaliser=1).loss.backward()
    assert new.grad.item() == -1.0


def test_t16_gradient_is_that_of_finite_differences():
    new = new_logprobs().double().detach().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x: policy_loss(inputs(x, advantages=ADVANTAGES.double()), normaliser=5, **CLIP).loss, (new,)
    )


@pytest.mark.parametrize("distance", [200.0, -200.0])
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_far_ratios_stay_finite(distance, advantage):
    new = torch.tensor([distance], requires_grad=True)
    far = LossInputs(
        new_logprobs=new,
        behaviour_logprobs=torch.zeros(1),
        advantages=torch.tensor([advantage]),
        mask=torch.tensor([True]),
    )
    output = policy_loss(far, normaliser=1, **CLIP)
    output.loss.backward()
    assert math.isfinite(output.loss.item())
    assert new.grad.item() == 0.0


def test_divergence_from_a_reference_by_hand():
    # without advantages only 0.5 * (n - f)^2 / 2 is left: n - f is 1, -2 and (masked) 9
    new = torch.tensor([-1.0, -3.0, -1.0], requires_grad=True)
    held = LossInputs(
        new_logprobs=new,
        behaviour_logprobs=new.detach().clone(),
        reference_logprobs=torch.tensor([-2.0, -1.0, -10.0]),
        advantages=torch.zeros(3),
        mask=torch.tensor([True, True, False]),
    )
    output = policy_loss(held, normaliser=2, kl_coefficient=0.5, **CLIP)
    output.loss.backward()
    assert output.loss.item() == pytest.approx((0.25 + 1.0) / 2)
    assert new.grad.tolist() == [0.25, -0.5, 0.0]
    assert output.stats.kl_reference == pytest.approx(math.exp(-1) - 1 + 1 + math.exp(2) - 1 - 2, abs=1e-5)


def test_gradient_of_the_divergence_is_that_of_the_kl_on_average():
    # every outcome of one draw, weighted by its probability, against the exact KL(policy || reference)
    logits = torch.tensor([0.3, -1.0, 0.8], dtype=torch.float64, requires_grad=True)
    reference = torch.log_softmax(torch.tensor([1.0, 0.2, -0.5], dtype=torch.float64), 0)
    new = torch.log_softmax(logits, 0)
    exact = torch.autograd.grad((new.exp() * (new - reference)).sum(), logits)[0]
    mean = torch.zeros(3, dtype=torch.float64)
    for outcome in range(3):
        new = torch.log_softmax(logits, 0)
        one = LossInputs(
            new_logprobs=new[outcome],
            behaviour_logprobs=new[outcome].detach(),
            reference_logprobs=reference[outcome],
            advantages=torch.tensor(0.0),
            mask=torch.tensor(True),
        )
        loss = policy_loss(one, normaliser=1, kl_coefficient=1.0, **CLIP).loss
        mean += new[outcome].detach().exp() * torch.autograd.grad(loss, logits)[0]
    assert torch.allclose(mean, exact, atol=1e-12)


def test_old_logprobs_are_what_is_clipped_against_and_the_samplers_are_a_truncated_weight():
    # o - b: log 1.5 and log 4 (truncated to 2); n - o: 1, so that nothing is clipped although n - b is far out
    new = torch.tensor([math.log(1.5), math.log(4.0)], requires_grad=True)
    far = LossInputs(
        new_logprobs=new,
        behaviour_logprobs=torch.zeros(2),
        old_logprobs=new.detach().clone(),
        advantages=torch.tensor([1.0, 1.0]),
        mask=torch.tensor([True, True]),
    )
    output = policy_loss(far, normaliser=2, importance_cap=2.0, **CLIP)
    output.loss.backward()
    assert output.loss.item() == pytest.approx(-(1.5 + 2.0) / 2)
    assert new.grad.tolist() == pytest.approx([-0.75, -1.0])
    assert (output.stats.clipped, output.stats.ratio) == (0, pytest.approx(5.5))
