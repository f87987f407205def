import pytest
import torch

from art_core.training import pick
from art_core.training.pick import pick_logprobs

SLOTS, TOKENS = torch.tensor([0, 2, 2, 1]), torch.tensor([3, 0, 4, 3])
TEMPERATURES = torch.tensor([1.0, 0.5, 2.0])


def logits(dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return (torch.randn(3, 5, generator=generator) * 4).to(dtype).requires_grad_()


def plainly(values):
    return torch.log_softmax(values.float() / TEMPERATURES[:, None], dim=-1)[SLOTS, TOKENS]


@pytest.mark.parametrize("tile", [1, 10, 1 << 19])
def test_values_and_gradients_are_those_of_log_softmax(monkeypatch, tile):
    monkeypatch.setattr(pick, "_TILE_ELEMENTS", tile)
    ours, theirs, upstream = logits(), logits(), torch.tensor([1.0, -2.0, 0.5, 3.0])
    got, expected = pick_logprobs(ours * 1, TEMPERATURES, SLOTS, TOKENS), plainly(theirs)
    assert torch.allclose(got, expected, atol=1e-6)
    got.backward(upstream)
    expected.backward(upstream)
    assert torch.allclose(ours.grad, theirs.grad, atol=1e-6)


def test_a_position_by_hand():
    got = pick_logprobs(torch.tensor([[0.0, 1.0]]), torch.tensor([0.5]), torch.tensor([0]), torch.tensor([1]))
    assert got.tolist() == pytest.approx([-0.126928])  # -log(1 + e^-2)


def test_half_precision_logits_give_float32_logprobs_and_a_gradient_of_their_own_type():
    values = logits(torch.bfloat16)
    got = pick_logprobs(values * 1, TEMPERATURES, SLOTS, TOKENS)
    assert got.dtype == torch.float32
    assert torch.allclose(got, plainly(values), atol=1e-6)
    got.sum().backward()
    assert values.grad.dtype == torch.bfloat16


def test_nothing_asked_for():
    none = torch.zeros(0, dtype=torch.long)
    assert pick_logprobs(torch.zeros(0, 5), torch.zeros(0), none, none).shape == (0,)
