"""LoRA adapters: attaching one to a model, and reading one from disk as plain matrices.

An adapter directory is what ``peft`` writes (``adapter_config.json``, ``adapter_model.safetensors``).
LoRA (arXiv 2106.09685): W' = W + s B A with s = alpha / r, or alpha / sqrt(r) for rsLoRA (arXiv 2312.03732).
"""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch
from peft import LoraConfig as PeftLoraConfig
from peft import PeftModel, get_peft_model, get_peft_model_state_dict
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from transformers import PreTrainedModel

from art_core.errors import InputError

from .config import LoraConfig

__all__ = ["CONFIG", "WEIGHTS", "AdapterWeights", "attach", "load_peft", "read_adapter"]

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
_PREFIX = "base_model.model."


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
    config_file, weights_file = directory / CONFIG, directory / WEIGHTS
    for file in (config_file, weights_file):
        if not file.is_file():
            raise InputError(f"{str(directory)!r} is not an adapter directory: it has no {file.name}")
    try:
        config = json.loads(config_file.read_text(encoding="utf-8"))
        rank, alpha = int(config.get("r", 0)), float(config.get("lora_alpha", 0))
        tensors = load_file(weights_file)
    except (OSError, ValueError, TypeError, AttributeError, SafetensorError) as error:
        raise InputError(f"adapter {str(directory)!r} cannot be read: {' '.join(str(error).split())}") from error
    if (
        config.get("peft_type") != "LORA"
        or config.get("use_dora")
        or config.get("rank_pattern")
        or config.get("alpha_pattern")
        or rank < 1
    ):
        raise InputError(f"adapter {str(directory)!r} is not a plain LoRA with one rank for all modules")
    halves: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        module, _, half = name.removeprefix(_PREFIX).removesuffix(".weight").rpartition(".")
        halves.setdefault(module, {})[half] = tensor
    for module, pair in halves.items():
        if set(pair) != {"lora_A", "lora_B"}:
            raise InputError(
                f"adapter {str(directory)!r} has {sorted(pair)} for module {module!r}, not lora_A and lora_B"
            )
    scale = alpha / (rank**0.5 if config.get("use_rslora") else rank)
    return AdapterWeights(scale=scale, factors={m: (p["lora_A"], p["lora_B"]) for m, p in halves.items()})


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
