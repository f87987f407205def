"""T19: training through folded weights is training through the adapter."""

import pytest
import torch
from peft import LoraConfig, get_peft_model

from art_core.models.fold import FoldedModel
from art_core.models.folded_lora import FoldedLora
from art_core.models.lora import AdapterWeights
from tests.tiny import tiny_model
from tests.unit.training.tiny import FAMILY_NAMES, gradient, lora

IDS = torch.tensor([[1, 2, 3, 4, 5]])


def loss(model):
    return torch.log_softmax(model(input_ids=IDS).logits[0], -1)[:-1].gather(1, IDS[0, 1:, None]).mean()


def fold(model, dtype=torch.float32):
    folded = FoldedLora(model, dtype=dtype)
    folded.fold()
    return folded


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_t19_loss_and_gradient_are_those_of_the_adapter(family):
    plain, model = lora(family), lora(family)
    value = loss(fold(model).model)
    value.backward()
    expected = loss(plain)
    expected.backward()
    assert value.item() == pytest.approx(expected.item(), abs=1e-5)
    assert (gradient(model) - gradient(plain)).norm() < 1e-5 * gradient(plain).norm()


def test_t19_rslora_is_scaled_by_the_square_root_of_the_rank():
    model = lora(rank=4, use_rslora=True)
    assert loss(fold(model).model).item() == pytest.approx(loss(model).item(), abs=1e-5)


def test_the_copy_follows_the_adapter_only_when_folded():
    model = lora()
    folded = fold(model)
    before = loss(folded.model).item()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.mul_(3)
    assert loss(folded.model).item() == before
    folded.fold()
    assert loss(folded.model).item() == pytest.approx(loss(model).item(), abs=1e-5)


def test_without_the_adapter_it_is_the_base():
    model = lora()
    folded = fold(model)
    with model.disable_adapter():
        folded.fold()
        assert loss(folded.model).item() == loss(model).item()


def test_sampler_and_trainer_fold_to_the_same_bits():
    model = lora("llama")
    (name, layer), *_ = [(n, m) for n, m in model.get_base_model().named_modules() if hasattr(m, "lora_A")]
    factors = {name: (layer.lora_A["default"].weight.detach(), layer.lora_B["default"].weight.detach())}
    sampler = FoldedModel(tiny_model("llama"), dtype=torch.bfloat16)
    sampler.fold(AdapterWeights(scale=layer.scaling["default"], factors=factors))
    trainer = fold(model, torch.bfloat16)
    assert torch.equal(sampler.model.get_submodule(name).weight, trainer.model.get_submodule(name).weight)


def test_only_the_adapted_matrices_are_copied():
    model = lora("llama", target_modules=["q_proj"])
    own = {id(p) for p in fold(model).model.parameters()}
    shared = {n for n, p in model.get_base_model().named_parameters() if id(p) in own}
    assert "model.layers.0.self_attn.k_proj.weight" in shared
    assert "model.layers.0.self_attn.q_proj.base_layer.weight" not in shared


def test_a_bias_is_kept():
    base = tiny_model("llama")
    base.model.layers[0].mlp.up_proj.bias = torch.nn.Parameter(
        torch.ones(base.model.layers[0].mlp.up_proj.out_features)
    )
    model = get_peft_model(base, LoraConfig(r=2, target_modules=["up_proj"], init_lora_weights=False))
    assert loss(fold(model).model).item() == pytest.approx(loss(model).item(), abs=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"use_dora": True},
        {"target_modules": ["embed_tokens"]},
        {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]},
    ],
)
def test_what_is_not_a_plain_lora_is_left_as_it_is(options):
    assert not FoldedLora.fits(lora(**options) if "modules_to_save" not in options else lora("llama-untied", **options))


def test_a_model_without_an_adapter_is_left_as_it_is():
    assert not FoldedLora.fits(tiny_model())
    assert FoldedLora.fits(lora())
