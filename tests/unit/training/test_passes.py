"""The passes that should agree do, in every family, and differ in what they are said to differ in."""

from __future__ import annotations

import pytest
import torch

from art_core.training.config import TrainingConfig
from art_core.training.passes import Pass, perturb_adapter, plain_pass, tree_pass

from .reference import reference_logprobs
from .tiny import FAMILY_NAMES, build, gradient, lora, row, step_rows

CONFIG = TrainingConfig(min_shared_tokens=1)
SHARES = [1.0, -0.5] * 6


def plain(model, rows, shares=None, **options):
    return plain_pass(model, rows, shares, precision="float32", **options)


def tree(model, rows, *, shared, config=CONFIG):
    return tree_pass(model, rows, SHARES, precision="float32", config=config, shared=shared)


def largest(one, two):
    return max(abs(a - b).max() for a, b in zip(one.logprobs, two.logprobs, strict=True))


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_a_padded_batch_gives_the_logprobs_of_plain_loops(family):
    samples, _ = step_rows(temperature=1.3)
    exact = lora(family).double()
    exact.set_attn_implementation("eager")
    expected = reference_logprobs(exact, samples)
    for reordered in (False, True):
        found = plain(lora(family), samples, reordered=reordered).logprobs
        for (number, position), value in expected.items():
            assert found[number][position] == pytest.approx(value.item(), abs=2e-5)


def test_the_gradient_is_that_of_the_weighted_mean_logprobs():
    rows = [row([3, 1, 4, 1, 5], [2, 4], temperature=0.7), row([2, 7, 1], [2])]
    model = lora()
    found = plain(model, rows, [1.0, -0.5])
    places = reference_logprobs(model, rows)
    (0.5 * (places[0, 2] + places[0, 4]) - 0.5 * places[1, 2]).backward()
    ends = torch.cat([found.gradient[name].flatten() for name, p in model.named_parameters() if p.requires_grad])
    assert torch.allclose(ends, gradient(model), atol=1e-6)


def test_another_order_of_sums_is_another_result_by_rounding_only():
    samples, _ = step_rows()
    model = lora()
    straight, reordered = (plain(model, samples, SHARES, reordered=other) for other in (False, True))
    assert 0 < largest(straight, reordered) < 2e-5
    assert 0 < reordered.distance(straight) < 1e-5


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_the_tree_agrees_with_the_padded_batch_and_computes_less(family):
    samples, _ = step_rows()
    model = lora(family)
    padded = plain(lora(family), samples, SHARES)
    shared, alone = (tree(model, samples, shared=choice) for choice in (True, False))
    for way in (shared, alone):
        assert largest(way, padded) < 5e-5
        assert way.distance(padded) < 2e-5
    assert shared.forward_tokens < alone.forward_tokens - 11 * 14


@pytest.mark.parametrize("width", [0, 1, 17, 64])
def test_t3_padding_on_either_side_changes_nothing_and_the_tree_has_none(monkeypatch, width):
    samples, _ = step_rows()
    longer = row([7] * (max(len(sample.token_ids) for sample in samples) + width), [1])
    right = plain(lora(), [*samples, longer], [*SHARES, 0.0])
    monkeypatch.setattr("art_core.training.passes._SHIFT", width)
    left = plain(lora(), samples, SHARES, reordered=True)
    whole = tree(lora(), samples, shared=True)
    for padded in (left, right):
        assert max(abs(a - b).max() for a, b in zip(padded.logprobs, whole.logprobs, strict=False)) < 2e-5
        assert whole.distance(padded) < 1e-5


def test_nothing_is_left_behind():
    samples, _ = step_rows()
    model = build()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    own = model.config._attn_implementation
    plain(model, samples, SHARES, reordered=True)
    assert all(torch.equal(p, before[name]) and p.grad is None for name, p in model.named_parameters())
    assert model.config._attn_implementation == own
    assert not any("forward" in vars(module) for module in model.modules())


def test_distance_is_relative_and_other_parameters_are_infinitely_far():
    def of(**gradients):
        tensors = {name: torch.tensor(values) for name, values in gradients.items()}
        return Pass(logprobs=[], gradient=tensors, forward_tokens=0)

    assert of(a=[3.0, 0.0]).distance(of(a=[3.0, 4.0])) == pytest.approx(0.8)
    assert of(a=[1.0]).distance(of(b=[1.0])) == float("inf")
    assert of(a=[1.0]).distance(of(a=[0.0])) == float("inf")
    assert of(a=[0.0]).distance(of(a=[0.0])) == 0.0


def test_a_perturbed_adapter_has_an_effect_and_is_a_function_of_its_seed():
    def logprobs(seed):
        model = lora()
        perturb_adapter(model, seed=seed)
        return plain(model, step_rows()[0]).logprobs[0]

    base = plain(build(), step_rows()[0]).logprobs[0]
    assert (logprobs(1) == logprobs(1)).all()
    assert abs(logprobs(1) - logprobs(2)).max() > 1e-3
    assert abs(logprobs(1) - base).max() > 1e-3
