import pytest
import torch

from art_core.models.fold import FoldedModel
from art_core.models.lora import AdapterWeights
from tests.tiny import tiny_model

NAME = "model.layers.0.self_attn.o_proj"
IDS = torch.tensor([[1, 2, 3, 4]])


def adapter(scale=0.5):
    generator = torch.Generator().manual_seed(0)
    down, up = torch.randn(2, 48, generator=generator), torch.randn(48, 2, generator=generator)
    return AdapterWeights(scale=scale, factors={NAME: (down, up)})


def test_folding_gives_w_plus_s_b_a_and_leaves_the_base_alone():
    base = tiny_model()
    weight = base.get_submodule(NAME).weight.clone()
    folded = FoldedModel(base)
    folded.fold(adapter())
    down, up = adapter().factors[NAME]
    assert torch.allclose(folded.model.get_submodule(NAME).weight, weight + 0.5 * up @ down, atol=1e-6)
    assert torch.equal(base.get_submodule(NAME).weight, weight)


def test_folding_again_starts_from_the_pristine_weights():
    folded = FoldedModel(tiny_model())
    folded.fold(adapter())
    once = folded.model.get_submodule(NAME).weight.clone()
    folded.fold(adapter())
    assert torch.equal(folded.model.get_submodule(NAME).weight, once)


def test_folding_nothing_gives_the_base_back():
    base = tiny_model()
    folded = FoldedModel(base)
    folded.fold(adapter())
    folded.fold(None)
    assert torch.equal(folded.model(IDS).logits, base(IDS).logits)


def test_parameters_that_are_not_adapted_are_shared():
    base = tiny_model()
    folded = FoldedModel(base)
    assert folded.model.get_input_embeddings().weight is base.get_input_embeddings().weight


def test_another_precision_converts_the_copy_only_and_keeps_ties():
    base = tiny_model()
    folded = FoldedModel(base, dtype=torch.bfloat16)
    assert {p.dtype for p in base.parameters()} == {torch.float32}
    assert {p.dtype for p in folded.model.parameters()} == {torch.bfloat16}
    assert folded.model.get_input_embeddings().weight is folded.model.get_output_embeddings().weight


def test_an_adapter_of_another_shape_is_refused_before_anything_changes():
    folded = FoldedModel(tiny_model())
    wrong = AdapterWeights(scale=1.0, factors={NAME: (torch.zeros(2, 7), torch.zeros(48, 2))})
    with pytest.raises(ValueError, match=r"\(48 x 7\) does not fit: the model has shape \(48, 48\)"):
        folded.fold(wrong)
