"""LoRA adapters: attaching one to a model, and reading one from disk as plain matrices.

An adapter directory is what ``peft`` writes (``adapter_config.json``, ``adapter_model.safetensors``).
LoRA (arXiv 2106.09685): W' = W + s B A with s = alpha / r, or alpha / sqrt(r) for rsLoRA (arXiv 2312.03732).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from peft import LoraConfig as PeftLoraConfig
from peft import PeftModel, get_peft_model
from safetensors.torch import load_file
from transformers import PreTrainedModel

from art_core.errors import InputError

from .adapter import WEIGHTS, read_config, scale_of, split_name
from .config import LoraConfig

__all__ = ["AdapterWeights", "attach", "read_adapter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterWeights:
    """A LoRA as matrices, by the name of the module it adapts."""

    scale: float
    factors: dict[str, tuple[torch.Tensor, torch.Tensor]]
    """Module name to (A, B): (r, in) and (out, r)."""


def attach(model: PreTrainedModel, config: LoraConfig, *, seed: int = 0) -> PeftModel:
    """Wrap ``model`` with a fresh adapter (B = 0, so nothing changes yet); the base weights are frozen.

    Raises:
        InputError: a target that no module has.
    """
    targets = config.targets if isinstance(config.targets, str) else list(config.targets)
    settings = PeftLoraConfig(
        r=config.rank, lora_alpha=config.alpha, lora_dropout=0.0, target_modules=targets, task_type="CAUSAL_LM"
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            return get_peft_model(model, settings)
        except ValueError as error:
            raise InputError(f"lora targets {config.targets!r} do not fit this model: {error}") from error


def read_adapter(directory: Path) -> AdapterWeights:
    """Read a LoRA that ``peft`` saved.

    Raises:
        InputError: files are missing, it is not a plain LoRA, or its tensors do not pair up.
    """
    config = read_config(directory)
    halves: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in load_file(directory / WEIGHTS).items():
        module, half = split_name(name)
        halves.setdefault(module, {})[half] = tensor
    for module, pair in halves.items():
        if set(pair) != {"lora_A", "lora_B"}:
            raise InputError(
                f"adapter {str(directory)!r} has {sorted(pair)} for module {module!r}, not lora_A and lora_B"
            )
    return AdapterWeights(scale=scale_of(config), factors={m: (p["lora_A"], p["lora_B"]) for m, p in halves.items()})
