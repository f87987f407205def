import json

import pytest
import torch
from safetensors.torch import save_file

from art_core.errors import InputError
from art_core.models.config import LoraConfig
from art_core.models.lora import attach, read_adapter
from tests.tiny import tiny_model


def test_a_fresh_adapter_changes_nothing():
    ids = torch.tensor([[1, 2, 3]])
    assert torch.equal(attach(tiny_model(), LoraConfig(rank=4)).eval()(ids).logits, tiny_model()(ids).logits)


def test_the_same_seed_gives_the_same_adapter_whatever_was_drawn_before():
    first = attach(tiny_model(), LoraConfig(rank=4), seed=3).state_dict()
    torch.randn(5)
    second = attach(tiny_model(), LoraConfig(rank=4), seed=3).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_reading_gives_what_was_saved(tmp_path):
    model = attach(tiny_model(), LoraConfig(rank=4, alpha=12))
    model.save_pretrained(tmp_path)
    adapter = read_adapter(tmp_path)
    assert adapter.scale == 3.0
    assert len(adapter.factors) == 14
    down, up = adapter.factors["model.layers.1.mlp.down_proj"]
    assert (down.shape, up.shape) == ((4, 64), (48, 4))


def test_a_target_no_module_has_is_named():
    with pytest.raises(ValueError, match="'nowhere'"):
        attach(tiny_model(), LoraConfig(targets=("nowhere",)))


def test_a_directory_without_an_adapter_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"has no adapter_config\.json"):
        read_adapter(tmp_path)


def test_an_unpaired_tensor_is_named(tmp_path):
    (tmp_path / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2, "lora_alpha": 4}))
    save_file({"base_model.model.x.lora_A.weight": torch.zeros(2, 3)}, tmp_path / "adapter_model.safetensors")
    with pytest.raises(ValueError, match=r"\['lora_A'\] for module 'x'"):
        read_adapter(tmp_path)


def test_only_linear_layers_can_be_adapted():
    with pytest.raises(InputError, match=r"name 'model.embed_tokens', a layer of type Embedding; only linear layers"):
        attach(tiny_model(), LoraConfig(targets=("embed_tokens", "q_proj")))
