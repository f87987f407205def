"""T19: folded weights are W + s B A, from the pristine W, and compute what the adapter does."""

import pytest
import torch
from peft import LoraConfig, get_peft_model

from art_core.models.fold import FoldedModel, Pristine
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


def on_grid():
    """A model as one that was published in bfloat16."""
    base = tiny_model()
    with torch.no_grad():
        for parameter in base.parameters():
            parameter.copy_(parameter.bfloat16())
    return base


def test_a_small_update_of_a_bfloat16_model_is_neither_swallowed_nor_grown():
    """To the nearest, none of the weights would move: the update is a twentieth of their last place."""
    weight = on_grid().get_submodule(NAME).weight.detach()
    change = 0.05 * 2.0**-8 * weight.abs().mean()
    down, up = torch.ones(1, 48), torch.full((48, 1), float(change))
    folded = Pristine(weight, torch.bfloat16).folded(down, up, 1.0).float()
    moved = (folded - weight).mean() / change
    assert torch.equal(
        (weight + change).bfloat16()[weight.abs() > weight.abs().mean()].float(),
        weight[weight.abs() > weight.abs().mean()],
    )
    assert 0.7 < moved < 1.3


def test_without_an_update_a_bfloat16_model_stays_as_it_is():
    weight = on_grid().get_submodule(NAME).weight.detach()
    zero = torch.zeros(2, 48), torch.zeros(48, 2)
    assert torch.equal(Pristine(weight, torch.bfloat16).folded(*zero, 1.0).float(), weight)


def test_other_models_are_rounded_to_the_nearest():
    weight = tiny_model().get_submodule(NAME).weight.detach()
    down, up = adapter().factors[NAME]
    assert torch.equal(Pristine(weight, torch.bfloat16).folded(down, up, 0.5), (weight + 0.5 * up @ down).bfloat16())


def test_a_fold_that_fails_half_way_is_undone_by_the_next(monkeypatch):
    base = tiny_model()
    other = "model.layers.1.self_attn.o_proj"
    two = AdapterWeights(scale=0.5, factors={name: adapter().factors[NAME] for name in (NAME, other)})
    folded = FoldedModel(base)
    with monkeypatch.context() as patch:
        patch.setattr(folded._pristine[other], "folded", lambda *_: 1 / 0, raising=False)
        with pytest.raises(ZeroDivisionError):
            folded.fold(two)
    folded.fold(None)
    assert torch.equal(folded.model(IDS).logits, base(IDS).logits)
