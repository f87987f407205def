"""T19: folded weights are W + s B A, from the pristine W, and compute what the adapter does."""

import pytest
import torch
from peft import LoraConfig, get_peft_model

from art_core.models.fold import FoldedModel
from art_core.models.lora import AdapterWeights, read_adapter
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


@pytest.mark.parametrize(("use_rslora", "scale"), [(False, 2.0), (True, 4.0)])
def test_t19_the_folded_model_computes_what_the_adapter_does(tmp_path, use_rslora, scale):
    model = get_peft_model(
        tiny_model(), LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", use_rslora=use_rslora)
    )
    for number, (name, parameter) in enumerate(model.named_parameters()):
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1, generator=torch.Generator().manual_seed(number))
    model.save_pretrained(tmp_path)
    read = read_adapter(tmp_path)
    assert read.scale == scale  # 8 / 4, and 8 / sqrt(4)
    folded = FoldedModel(tiny_model())
    folded.fold(read)
    assert torch.allclose(folded.model(IDS).logits, model.eval()(IDS).logits, atol=2e-4)
    with model.disable_adapter():
        assert torch.equal(model(IDS).logits, tiny_model()(IDS).logits)


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
