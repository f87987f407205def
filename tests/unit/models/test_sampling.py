"""T6: what is drawn follows the distribution, at its temperature, and its logprob is that of the whole of it."""

import math

import pytest
import torch

from art_core.inference.protocol import SamplingParams
from art_core.models.sampling import draw
from art_core.randomness import fold

LOGITS = torch.log(torch.tensor([[0.5, 0.25, 0.125, 0.125]]))


def draws(logits, count, **params):
    rows = logits.expand(count, -1)
    return draw(rows, [SamplingParams(**params)] * count, [fold("t", i) for i in range(count)], [0] * count)


def test_the_logprob_is_that_of_the_whole_distribution():
    ids, logprobs = draws(LOGITS, 1)
    assert logprobs == pytest.approx([math.log([0.5, 0.25, 0.125, 0.125][ids[0]])])


def test_frequencies_follow_the_probabilities():
    ids, _ = draws(LOGITS, 4000)
    shares = torch.bincount(torch.tensor(ids), minlength=4) / 4000
    assert shares.tolist() == pytest.approx([0.5, 0.25, 0.125, 0.125], abs=0.03)


def test_temperature_sharpens_and_is_part_of_the_logprob():
    ids, logprobs = draws(LOGITS, 4000, temperature=0.5)
    squares = [0.25, 0.0625, 0.015625, 0.015625]
    expected = [s / sum(squares) for s in squares]
    assert torch.bincount(torch.tensor(ids), minlength=4).div(4000).tolist() == pytest.approx(expected, abs=0.03)
    assert logprobs[0] == pytest.approx(math.log(expected[ids[0]]))


@pytest.mark.parametrize("temperature", [0.7, 1.3])
def test_t6_the_mean_importance_ratio_against_the_same_distribution_is_one(temperature):
    logits = torch.randn(1, 50, generator=torch.Generator().manual_seed(0))
    ids, logprobs = draws(logits, 3000, temperature=temperature)
    target = torch.log_softmax(logits[0], -1)[torch.tensor(ids)]  # the same weights at T = 1
    ratios = torch.exp(target - torch.tensor(logprobs))
    assert abs(ratios.mean() - 1) < 3 * ratios.std() / math.sqrt(3000)


def test_t6_a_wrong_temperature_is_noticed():
    logits = torch.randn(1, 50, generator=torch.Generator().manual_seed(0))
    ids, logprobs = draws(logits, 3000, temperature=1.3)
    wrong = torch.log_softmax(logits[0] / 0.7, -1)[torch.tensor(ids)]
    ratios = torch.exp(torch.log_softmax(logits[0], -1)[torch.tensor(ids)] - wrong)
    assert abs(ratios.mean() - 1) > 3 * ratios.std() / math.sqrt(3000)
    assert logprobs != pytest.approx(wrong.tolist(), abs=0.05)


def test_greedy_takes_the_largest_at_temperature_zero():
    assert draws(LOGITS, 3, temperature=0) == ([0, 0, 0], pytest.approx([math.log(0.5)] * 3))


def test_top_p_never_leaves_the_nucleus():
    ids, _ = draws(LOGITS, 500, top_p=0.6)
    assert set(ids) == {0, 1}


def test_ids_of_probability_zero_are_never_drawn():
    logits = torch.full((1, 1000), float("-inf"))
    logits[0, [3, 700]] = 0.0
    ids, _ = draws(logits, 500)
    assert set(ids) == {3, 700}


def test_a_draw_is_a_function_of_key_and_counter():
    logits = torch.randn(2, 5000)
    both, _ = draw(logits, [SamplingParams()] * 2, [1, 2], [5, 6])
    second, _ = draw(logits[1:], [SamplingParams()], [2], [6])
    assert both[1] == second[0]


def test_logits_in_half_precision_are_drawn_from_in_full():
    logits = torch.randn(20, 300, generator=torch.Generator().manual_seed(0)).bfloat16()
    arguments = [SamplingParams()] * 20, list(range(20)), [0] * 20
    assert draw(logits, *arguments) == draw(logits.float(), *arguments)
