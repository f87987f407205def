"""LoRA adapters: attaching one to a model, and reading one from disk as plain matrices.

An adapter directory is what ``peft`` writes (``adapter_config.json``, ``adapter_model.safetensors``).
LoRA (arXiv 2106.09685): W' = W + s B A with s = alpha / r, or alpha / sqrt(r) for rsLoRA (arXiv 2312.03732).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import torch
from peft import LoraConfig as PeftLoraConfig
from peft import PeftModel, get_peft_model, get_peft_model_state_dict
from peft.tuners.tuners_utils import BaseTunerLayer
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from transformers import PreTrainedModel

from art_core.errors import InputError

from .adapter import CONFIG, WEIGHTS, read_config, scale_of, split_name
from .compute import COMPUTE
from .config import LoraConfig

__all__ = ["AdapterWeights", "attach", "load_peft", "read_adapter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterWeights:
    """A LoRA as matrices, by the name of the module it adapts."""

    scale: float
    factors: dict[str, tuple[torch.Tensor, torch.Tensor]]
    """Module name to (A, B): (r, in) and (out, r)."""


def attach(model: PreTrainedModel, config: LoraConfig, *, seed: int = 0) -> PeftModel:
    """Wrap ``model`` with a fresh adapter (B = 0, so nothing changes yet); the base weights are frozen.

    Raises:
        InputError: a target that no module has, or one that is no plain linear layer.
    """
    return COMPUTE.run(_attach, model, config, seed)


def _attach(model: PreTrainedModel, config: LoraConfig, seed: int) -> PeftModel:
    targets = config.targets if isinstance(config.targets, str) else list(config.targets)
    settings = PeftLoraConfig(
        r=config.rank, lora_alpha=config.alpha, lora_dropout=0.0, target_modules=targets, task_type="CAUSAL_LM"
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            adapted = get_peft_model(model, settings)
        except ValueError as error:
            raise InputError(f"lora targets {config.targets!r} do not fit this model: {error}") from error
    for name, module in adapted.named_modules():
        if isinstance(module, BaseTunerLayer) and not isinstance(module.get_base_layer(), torch.nn.Linear):
            kind = type(module.get_base_layer()).__name__
            raise InputError(
                f"lora targets {config.targets!r} name {name.removeprefix('base_model.model.')!r}, a layer of type {kind}; "
                "only linear layers can be adapted"
            )
    return adapted


def read_adapter(directory: Path) -> AdapterWeights:
    """Read a LoRA that ``peft`` saved.

    Raises:
        InputError: files are missing, it is not a plain LoRA, or its tensors do not pair up.
    """
    config = read_config(directory)
    try:
        tensors = load_file(directory / WEIGHTS)
    except (OSError, ValueError, SafetensorError) as error:
        raise InputError(f"adapter {str(directory)!r} cannot be read: {' '.join(str(error).split())}") from error
    halves: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        module, half = split_name(name)
        halves.setdefault(module, {})[half] = tensor
    for module, pair in halves.items():
        if set(pair) != {"lora_A", "lora_B"}:
            raise InputError(
                f"adapter {str(directory)!r} has {sorted(pair)} for module {module!r}, not lora_A and lora_B"
            )
    return AdapterWeights(scale=scale_of(config), factors={m: (p["lora_A"], p["lora_B"]) for m, p in halves.items()})


def load_peft(model: PreTrainedModel, directory: Path) -> PeftModel:
    """Put the adapter in ``directory`` on ``model`` with the stock loader, which alone would leave out what does not fit.

    Raises:
        InputError: weights and configuration do not name the same modules of this model.
    """
    with safe_open(directory / WEIGHTS, framework="pt") as file:
        stored = set(file.keys())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the loader would warn of is an error below
        try:
            adapted = PeftModel.from_pretrained(model, directory)
        except ValueError as error:
            raise InputError(f"adapter {str(directory)!r} does not fit: {' '.join(str(error).split())}") from error
    wanted = set(get_peft_model_state_dict(adapted, save_embedding_layers=False))
    if stored != wanted:
        missing, unused = sorted(wanted - stored), sorted(stored - wanted)
        raise InputError(
            f"adapter {str(directory)!r} does not fit: its {CONFIG} asks for {len(missing)} tensors that its weights lack "
            f"(such as {missing[:1]}) and for none of {len(unused)} that they hold (such as {unused[:1]})"
        )
    return adapted.eval()
