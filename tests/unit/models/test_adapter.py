import json

import pytest
import torch
from peft import LoraConfig as PeftLoraConfig
from peft import get_peft_model
from safetensors.torch import save_file

from art_core.errors import InputError
from art_core.models.adapter import read_shape
from art_core.models.config import LoraConfig
from art_core.models.lora import attach, read_adapter
from tests.tiny import tiny_model


def saved(directory, **options):
    get_peft_model(tiny_model(), PeftLoraConfig(**{"r": 4, "lora_alpha": 6} | options)).save_pretrained(directory)
    return directory


def test_the_shape_is_what_it_was_made_with(tmp_path):
    attach(tiny_model(), LoraConfig(rank=4, alpha=12, targets=("v_proj", "q_proj"))).save_pretrained(tmp_path)
    shape = read_shape(tmp_path)
    assert (shape.rank, shape.alpha, shape.targets) == (4, 12.0, ("q_proj", "v_proj"))


def test_an_adapter_attached_by_its_shape_has_its_modules_and_scale(tmp_path):
    shape = read_shape(saved(tmp_path / "a", target_modules=r".*layers\.1\.mlp\.(up|down)_proj", use_rslora=True))
    attach(tiny_model(), shape).save_pretrained(tmp_path / "b")
    one, two = read_adapter(tmp_path / "a"), read_adapter(tmp_path / "b")
    assert set(two.factors) == set(one.factors) == {f"model.layers.1.mlp.{half}_proj" for half in ("up", "down")}
    assert two.scale == pytest.approx(one.scale) == 3.0


@pytest.mark.parametrize(
    "options",
    [
        {"use_dora": True, "target_modules": ["q_proj"]},
        {"rank_pattern": {"q_proj": 2}, "target_modules": ["q_proj", "v_proj"]},
        {"modules_to_save": ["lm_head"], "target_modules": ["q_proj"]},
    ],
    ids=lambda options: next(iter(options)),
)
def test_what_is_not_a_plain_lora_is_refused(tmp_path, options):
    with pytest.raises(InputError, match=r"is not a plain LoRA|not lora_A and lora_B of rank 4"):
        read_shape(saved(tmp_path, **options))


def test_a_cut_weights_file_is_refused(tmp_path):
    file = saved(tmp_path, target_modules=["q_proj"]) / "adapter_model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(InputError, match="is not a whole safetensors file"):
        read_shape(tmp_path)
    file.write_bytes(b"\x09")
    with pytest.raises(InputError, match="is not a whole safetensors file"):
        read_shape(tmp_path)


def test_a_rank_that_is_not_that_of_the_tensors_is_refused(tmp_path):
    config = {"peft_type": "LORA", "r": 3, "lora_alpha": 4, "target_modules": ["x"]}
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    halves = {"base_model.model.x.lora_A.weight": (2, 5), "base_model.model.x.lora_B.weight": (7, 2)}
    save_file({name: torch.zeros(shape) for name, shape in halves.items()}, tmp_path / "adapter_model.safetensors")
    with pytest.raises(InputError, match=r"has lora_A \[2, 5\], lora_B \[7, 2\] for module 'x'"):
        read_shape(tmp_path)


@pytest.mark.parametrize("initial", ["pissa", "pissa_niter_4", "olora"])
def test_an_adapter_of_a_base_that_peft_changes_is_refused(tmp_path, initial):
    file = saved(tmp_path, target_modules=["q_proj"]) / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"init_lora_weights": initial}))
    with pytest.raises(InputError, match=f"belongs to a changed base: its init_lora_weights is '{initial}'"):
        read_shape(tmp_path)
