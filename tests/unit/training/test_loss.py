"""T1, T4, T5, T11, T16, T17 and T18: the loss on two rows of three tokens, against numbers worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from art_core.training.config import RULES, LossRule, TrainingConfig
from art_core.training.loss import LossInputs, TokenStats, _surrogate, policy_loss, token_weights

CLIP = LossRule(clip_low=0.2, clip_high=0.3)
# ratios e^(new - behaviour); the third token of the second row is context
RATIOS = torch.tensor([[1.0, 1.5, 0.5], [1.5, 0.5, 1.0]])
ADVANTAGES = torch.tensor([[2.0, 2.0, 2.0], [-1.0, -1.0, -1.0]])
MASK = torch.tensor([[True, True, True], [True, True, False]])
WEIGHTS = torch.full((2, 3), 1 / 5)


def inputs(new, *, behaviour=None, advantages=ADVANTAGES, weights=WEIGHTS, mask=MASK, **more):
    behaviour = torch.full_like(new, -2.0) if behaviour is None else behaviour
    return LossInputs(
        new_logprobs=new, behaviour_logprobs=behaviour, advantages=advantages, weights=weights, mask=mask, **more
    )


def row(new, behaviour, advantages, **more):
    """One row of trained tokens, all of the same weight."""
    count = len(new)
    return LossInputs(
        new_logprobs=new,
        behaviour_logprobs=behaviour,
        advantages=torch.as_tensor(advantages),
        **{"weights": torch.full((count,), 1 / count), "mask": torch.ones(count, dtype=torch.bool)} | more,
    )


def new_logprobs():
    return (RATIOS.log() - 2.0).requires_grad_()


def test_t1_loss_by_hand():
    # row 1: -2*1, -2*1.3 (clipped), -2*0.5; row 2: +1*1.5, +1*0.8 (clipped) -> (-2 - 2.6 - 1 + 1.5 + 0.8) / 5
    output = policy_loss(inputs(new_logprobs()), CLIP)
    assert output.loss.item() == pytest.approx(-0.66, abs=1e-6)


def test_t1_gradient_by_hand():
    # d(-r A)/d(new) = -r A, and 0 where clipped
    new = new_logprobs()
    policy_loss(inputs(new), CLIP).loss.backward()
    expected = [[-0.4, 0.0, -0.2], [0.3, 0.0, 0.0]]
    assert torch.allclose(new.grad, torch.tensor(expected), atol=1e-6)


def test_stats_by_hand():
    stats = policy_loss(inputs(new_logprobs()), CLIP).stats
    assert (stats.tokens, stats.clipped) == (5, 2)
    assert stats.ratio == pytest.approx(5.0, abs=1e-5)
    logs = [math.log(ratio) for ratio in (1.0, 1.5, 0.5, 1.5, 0.5)]
    assert stats.kl == pytest.approx(-sum(logs), abs=1e-5)
    assert stats.surprise == pytest.approx(10.0 - sum(logs), abs=1e-5)


def test_stats_add_up():
    total = TokenStats(tokens=1, ratio=2.0, clipped=3, kl=4.0, surprise=5.0) + TokenStats(tokens=1, ratio=0.5)
    assert total == TokenStats(tokens=2, ratio=2.5, clipped=3, kl=4.0, surprise=5.0)


# the same tokens under the losses of three papers, as they weigh them: a third or a half of a rollout, or 1 / 20, or 1 / 5
BY_PAPER = {
    "grpo": (-0.325, [[-1 / 3, 0.0, -1 / 6], [0.375, 0.0, 0.0]]),  # (-2 - 2.4 - 1) / 6 + (1.5 + 0.8) / 4
    "dr_grpo": (-0.155, [[-0.1, 0.0, -0.05], [0.075, 0.0, 0.0]]),  # (-5.4 + 2.3) / 20
    "dapo": (-0.652, [[-0.4, 0.0, -0.2], [0.3, 0.0, 0.0]]),  # (-2 - 2.56 - 1 + 1.5 + 0.8) / 5
}


@pytest.mark.parametrize("name", BY_PAPER)
def test_t1_the_loss_of_a_paper_by_hand(name):
    rule, new = RULES[name], new_logprobs()
    of_rows = token_weights([("a", 3), ("b", 2)], rule.weighting, 10)
    output = policy_loss(inputs(new, weights=torch.tensor(of_rows)[:, None].expand(2, 3)), rule)
    output.loss.backward()
    loss, gradient = BY_PAPER[name]
    assert output.loss.item() == pytest.approx(loss, abs=1e-6)
    assert torch.allclose(new.grad, torch.tensor(gradient), atol=1e-6)


GIVEN = {
    "new_logprobs": RATIOS.log() - 2.0,
    "behaviour_logprobs": torch.full((2, 3), -2.0),
    "old_logprobs": torch.full((2, 3), -2.1),
    "reference_logprobs": torch.full((2, 3), -1.8),
    "rollout_log_ratios": torch.full((2, 3), 0.1),
    "advantages": ADVANTAGES,
    "weights": WEIGHTS,
}


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", GIVEN)
@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
@pytest.mark.parametrize("name", ["dapo", "gspo", "cispo", "reinforce"])
def test_t4_masked_poison_changes_nothing(name, estimator, where, poison):
    def step(value):
        given = {field: tensor.clone() for field, tensor in GIVEN.items()}
        given[where][1, 2] = value
        new = given["new_logprobs"].requires_grad_()
        rule = replace(RULES[name], kl_coefficient=0.1, kl_estimator=estimator)
        output = policy_loss(LossInputs(**given, mask=MASK), rule)
        output.loss.backward()
        return output, new.grad

    (expected, gradient), (output, poisoned) = step(0.0), step(poison)
    assert output.loss == expected.loss
    assert output.stats == expected.stats
    assert torch.equal(poisoned, gradient)


def test_t5_on_policy_ratio_is_one_and_kl_zero():
    new = torch.tensor([-0.3, -5.0, -0.001])
    stats = policy_loss(row(new, new.clone(), [1.0] * 3), CLIP).stats
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
    output = policy_loss(row(new, torch.zeros(1), [advantage]), CLIP)
    output.loss.backward()
    assert new.grad.item() == pytest.approx(-ratio * advantage if moves else 0.0, abs=1e-5)
    assert output.stats.clipped == int(not moves)


@pytest.mark.parametrize(("ratio", "advantage"), [(1.25, 1.0), (0.75, -1.0)])
def test_t17_at_the_exact_edges_nothing_is_cut_off_and_just_beyond_all_is(ratio, advantage):
    rule = LossRule(clip_low=0.25, clip_high=0.25)  # all of these numbers are exact in binary
    beyond = ratio + (ratio - 1.0) / 2**20
    ratios = torch.tensor([ratio, beyond], requires_grad=True)
    surrogate, bounded = _surrogate(torch.zeros(2), ratios, torch.tensor(advantage), rule)
    surrogate.sum().backward()
    assert ratios.grad.tolist() == [advantage, 0.0]
    assert bounded.tolist() == [False, True]


def test_t17_with_bounds_of_zero_the_gradient_is_whole_where_nothing_has_moved():
    new = torch.zeros(1, requires_grad=True)
    policy_loss(row(new, torch.zeros(1), [1.0]), LossRule(clip_low=0.0, clip_high=0.0)).loss.backward()
    assert new.grad.item() == -1.0


@pytest.mark.parametrize("distance", [200.0, -200.0])
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_far_ratios_stay_finite(distance, advantage):
    new = torch.tensor([distance], requires_grad=True)
    output = policy_loss(row(new, torch.zeros(1), [advantage]), CLIP)
    output.loss.backward()
    assert math.isfinite(output.loss.item())
    assert new.grad.item() == 0.0


def test_old_logprobs_are_what_is_clipped_against_and_the_samplers_are_a_truncated_weight():
    # o - b: log 1.5 and log 4 (truncated to 2); n - o: 1, so that nothing is clipped although n - b is far out
    new = torch.tensor([math.log(1.5), math.log(4.0)], requires_grad=True)
    output = policy_loss(row(new, torch.zeros(2), [1.0, 1.0], old_logprobs=new.detach().clone()), CLIP)
    output.loss.backward()
    assert output.loss.item() == pytest.approx(-(1.5 + 2.0) / 2)
    assert new.grad.tolist() == pytest.approx([-0.75, -1.0])
    assert (output.stats.clipped, output.stats.ratio) == (0, pytest.approx(5.5))


# the first two tokens are one rollout, whose ratio is e^((log 1.5 + log 0.6) / 2) = 0.9487; the third is another's, 0.5
GSPO = LossRule(ratio="rollout", clip_low=0.2, clip_high=0.3)
ROLLOUTS = torch.tensor([0.9**0.5, 0.9**0.5, 0.5]).log()


def test_t1_gspo_by_hand():
    new = torch.tensor([1.5, 0.6, 0.5]).log().requires_grad_()
    output = policy_loss(row(new, torch.zeros(3), [2.0, 2.0, -1.0], rollout_log_ratios=ROLLOUTS), GSPO)
    output.loss.backward()
    # -2 * 0.9487 twice, +1 * 0.8 (0.5 is below the bound) -> / 3
    assert output.loss.item() == pytest.approx((-4 * 0.9**0.5 + 0.8) / 3, abs=1e-6)
    assert new.grad.tolist() == pytest.approx([-2 * 0.9**0.5 / 3] * 2 + [0.0], abs=1e-6)
    assert output.stats.clipped == 1


def test_t16_gspo_carries_its_gradient_through_the_mean_of_the_rollout():
    # weights of 1 / (rollouts * tokens) make the sum over tokens the derivative of -A * exp(mean(n - o))
    start = torch.tensor([0.3, -0.1, 0.05], dtype=torch.float64)

    def loss(new):
        ratios = (new.detach()).mean().expand(3)
        inputs = row(new, torch.zeros(3).double(), [1.5] * 3, rollout_log_ratios=ratios)
        return policy_loss(inputs, LossRule(ratio="rollout")).loss

    new = start.clone().requires_grad_()
    loss(new).backward()
    for index in range(3):
        step = torch.zeros(3, dtype=torch.float64)
        step[index] = 1e-6
        slope = (-1.5 * (start + step).mean().exp() + 1.5 * (start - step).mean().exp()) / 2e-6
        assert new.grad[index].item() == pytest.approx(slope.item(), rel=1e-6)


def test_t1_cispo_by_hand():
    new = torch.tensor([1.5, 0.5, 6.0]).log().requires_grad_()
    output = policy_loss(
        row(new, torch.zeros(3), [2.0, -1.0, 1.0]), LossRule(objective="cispo", clip_low=1.0, clip_high=4.0)
    )
    output.loss.backward()
    # factors 1.5, 0.5 and 5 (bounded); times A and the logprob
    expected = -(1.5 * 2 * math.log(1.5) - 0.5 * math.log(0.5) + 5 * math.log(6.0)) / 3
    assert output.loss.item() == pytest.approx(expected, abs=1e-6)
    assert output.stats.clipped == 1


def test_t16_the_factor_of_cispo_is_constant():
    new = torch.tensor([1.5, 0.5, 6.0]).log().requires_grad_()
    policy_loss(
        row(new, torch.zeros(3), [2.0, -1.0, 1.0]), LossRule(objective="cispo", clip_low=1.0, clip_high=4.0)
    ).loss.backward()
    assert new.grad.tolist() == pytest.approx([-1.0, 0.5 / 3, -5 / 3], abs=1e-6)


def test_t1_reinforce_by_hand():
    new = torch.tensor([-1.0, -2.0], requires_grad=True)
    output = policy_loss(row(new, torch.tensor([-1.0, -2.0]), [3.0, -1.0]), LossRule(objective="reinforce"))
    output.loss.backward()
    assert output.loss.item() == pytest.approx((3.0 - 2.0) / 2)
    assert new.grad.tolist() == [-1.5, 0.5]


@pytest.mark.parametrize("rule", [LossRule(), LossRule(objective="cispo"), LossRule(objective="reinforce")])
def test_t16_the_samplers_weight_carries_no_gradient(rule):
    # n = o: the gradient is -w A however w was made
    new = torch.tensor([-1.0], requires_grad=True)
    policy_loss(row(new, torch.tensor([-1.5]), [1.0], old_logprobs=new.detach().clone()), rule).loss.backward()
    assert new.grad.item() == pytest.approx(-math.exp(0.5), rel=1e-6)


def test_t16_gradient_is_that_of_finite_differences():
    new = new_logprobs().double().detach().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x: policy_loss(inputs(x, advantages=ADVANTAGES.double(), weights=WEIGHTS.double()), CLIP).loss, (new,)
    )


# n - f is 1, -2 and (masked) 9; without advantages only the divergence is left
AWAY = {
    "k2": ((0.25 + 1.0) / 2, [0.25, -0.5, 0.0]),
    "k3": (0.5 * (math.exp(-1) + math.exp(2) - 3) / 2, [0.25 * (1 - math.exp(-1)), 0.25 * (1 - math.exp(2)), 0.0]),
}


@pytest.mark.parametrize("estimator", AWAY)
def test_t18_divergence_from_a_reference_by_hand(estimator):
    new = torch.tensor([-1.0, -3.0, -1.0], requires_grad=True)
    held = row(
        new,
        new.detach().clone(),
        [0.0] * 3,
        reference_logprobs=torch.tensor([-2.0, -1.0, -10.0]),
        weights=torch.full((3,), 0.5),
        mask=torch.tensor([True, True, False]),
    )
    output = policy_loss(held, LossRule(kl_coefficient=0.5, kl_estimator=estimator))
    output.loss.backward()
    loss, gradient = AWAY[estimator]
    assert output.loss.item() == pytest.approx(loss, abs=1e-6)
    assert new.grad.tolist() == pytest.approx(gradient, abs=1e-6)
    assert output.stats.kl_reference == pytest.approx(math.exp(-1) - 1 + 1 + math.exp(2) - 1 - 2, abs=1e-5)


def test_t18_k1_is_part_of_the_advantage():
    # o - f is 0.5: the advantage of 1 becomes 1 - 0.4 * 0.5 = 0.8
    new = torch.tensor([-1.0], requires_grad=True)
    held = row(new, torch.tensor([-1.0]), [1.0], reference_logprobs=torch.tensor([-1.5]))
    policy_loss(held, LossRule(kl_coefficient=0.4, kl_estimator="k1")).loss.backward()
    assert new.grad.item() == pytest.approx(-0.8)


@pytest.mark.parametrize(("estimator", "reverse"), [("k1", False), ("k2", False), ("k3", True)])
def test_t18_the_gradient_is_that_of_the_divergence_on_average(estimator, reverse):
    # every outcome of one draw, weighted by its probability, against the exact KL(policy || reference), or its reverse
    logits = torch.tensor([0.3, -1.0, 0.8], dtype=torch.float64, requires_grad=True)
    reference = torch.log_softmax(torch.tensor([1.0, 0.2, -0.5], dtype=torch.float64), 0)
    policy = torch.log_softmax(logits, 0)
    forward = (policy.exp() * (policy - reference)).sum()
    kl = (reference.exp() * (reference - policy)).sum() if reverse else forward
    exact = torch.autograd.grad(kl, logits, retain_graph=True)[0]
    mean, value = torch.zeros(3, dtype=torch.float64), 0.0
    for outcome in range(3):
        new = torch.log_softmax(logits, 0)[outcome : outcome + 1]
        one = row(new, new.detach(), torch.zeros(1).double(), reference_logprobs=reference[outcome : outcome + 1])
        loss = policy_loss(one, LossRule(kl_coefficient=1.0, kl_estimator=estimator)).loss
        mean += new.detach().exp() * torch.autograd.grad(loss, logits)[0]
        value += float((new.exp() * loss).detach())
    assert torch.allclose(mean, exact, atol=1e-12)
    square = (policy.exp() * (policy - reference) ** 2).sum() / 2  # k2 is biased, the others are not
    assert value == pytest.approx(float((square if estimator == "k2" else forward).detach()), abs=1e-12)


ROWS = [("a", 3), ("b", 2), ("b", 5)]  # rollout b has become two rows


@pytest.mark.parametrize(
    ("weighting", "expected"),
    [("token", [0.1, 0.1, 0.1]), ("rollout", [1 / 6, 1 / 14, 1 / 14]), ("constant", [1 / 40, 1 / 40, 1 / 40])],
)
def test_t11_weights_count_rollouts_not_rows(weighting, expected):
    assert token_weights(ROWS, weighting, 20) == pytest.approx(expected)


@pytest.mark.parametrize("weighting", ["token", "rollout", "constant"])
def test_weights_of_a_step_without_rows(weighting):
    assert token_weights([], weighting, 20) == []


def test_weights_of_a_row_without_tokens():
    assert token_weights([("a", 0)], "token", 20) == [1.0]


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("grpo", LossRule(weighting="rollout", clip_low=0.2, clip_high=0.2)),
        ("dr_grpo", LossRule(weighting="constant", clip_low=0.2, clip_high=0.2)),
        ("dapo", LossRule(weighting="token", clip_low=0.2, clip_high=0.28)),
        ("gspo", LossRule(ratio="rollout", weighting="rollout", clip_low=3e-4, clip_high=4e-4)),
        ("cispo", LossRule(objective="cispo", clip_low=1.0, clip_high=4.0)),
        ("reinforce", LossRule(objective="reinforce")),
    ],
)
def test_each_loss_is_a_rule_with_the_bounds_of_its_paper(name, rule):
    assert TrainingConfig(loss=name).rule == rule


def test_bounds_given_replace_those_of_the_loss():
    rule = TrainingConfig(loss="gspo", clip_high=0.01, passes=2).rule
    assert (rule.clip_low, rule.clip_high) == (3e-4, 0.01)
