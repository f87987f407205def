"""Adapter directories as ``peft`` writes them, read without a tensor library: what kind of adapter, of which shape.

The weights file is in the safetensors format: eight bytes with the length of a JSON header, the header, the numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from art_core.errors import InputError

from .config import LoraConfig

__all__ = ["CONFIG", "WEIGHTS", "adapters_in", "only_adapter", "read_config", "read_shape", "scale_of", "split_name"]

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"

_PREFIX = "base_model.model."
_SPECIAL = ("use_dora", "rank_pattern", "alpha_pattern", "layer_replication", "alora_invocation_tokens")
_CHANGES_THE_BASE = ("pissa", "olora", "corda", "loftq", "lora_ga")
_PARTIAL = ("layers_to_transform", "layers_pattern", "exclude_modules")


def adapters_in(checkpoint: Path) -> list[Path]:
    """The directories of the adapters in a checkpoint of several; none in one of a single adapter."""
    return sorted(path.parent for path in checkpoint.glob(f"*/{CONFIG}"))


def only_adapter(checkpoint: Path) -> Path:
    """The directory of the adapter in a checkpoint.

    Raises:
        InputError: it holds several, each in a directory of its own.
    """
    if inside := adapters_in(checkpoint):
        names = ", ".join(path.name for path in inside)
        raise InputError(
            f"{str(checkpoint)!r} holds several adapters ({names}); give the directory of one, such as {inside[0]}"
        )
    return checkpoint


def read_config(directory: Path) -> dict[str, Any]:
    """What ``adapter_config.json`` says.

    Raises:
        InputError: a file is missing or damaged, or it is not a plain LoRA.
    """
    for name in (CONFIG, WEIGHTS):
        if not (directory / name).is_file():
            raise InputError(f"{str(directory)!r} is not an adapter directory: it has no {name}")
    try:
        config = json.loads((directory / CONFIG).read_text(encoding="utf-8"))
        rank, alpha = int(config["r"]), float(config["lora_alpha"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{str(directory / CONFIG)!r} cannot be read: {error!r}") from error
    special = any(config.get(name) for name in _SPECIAL)
    if config.get("peft_type") != "LORA" or special or rank < 1 or alpha <= 0:
        raise InputError(f"adapter {str(directory)!r} is not a plain LoRA with one rank for all modules")
    initial = config.get("init_lora_weights", True)
    if isinstance(initial, str) and initial.lower().startswith(_CHANGES_THE_BASE):
        raise InputError(
            f"adapter {str(directory)!r} belongs to a changed base: its init_lora_weights is {initial!r}; convert it to a "
            "plain LoRA first (peft: save_pretrained with path_initial_model_for_weight_conversion)"
        )
    return dict(config)


def scale_of(config: Mapping[str, Any]) -> float:
    """What B A is multiplied by: alpha / r, or alpha / sqrt(r) for rsLoRA."""
    rank = int(config["r"])
    return float(config["lora_alpha"]) / (rank**0.5 if config.get("use_rslora") else rank)


def split_name(name: str) -> tuple[str, str]:
    """The module that a tensor of the weights file adapts, and which half it is: ``lora_A`` or ``lora_B``."""
    module, _, half = name.removeprefix(_PREFIX).removesuffix(".weight").rpartition(".")
    return module, half


def read_shape(directory: Path) -> LoraConfig:
    """Rank, alpha and targets of an adapter; an rsLoRA as the plain one that scales the same.

    Raises:
        InputError: see ``read_config``; or the tensors are not the two halves of that rank for each module.
    """
    config = read_config(directory)
    rank = int(config["r"])
    halves: dict[str, dict[str, list[int]]] = {}
    for name, shape in _tensor_shapes(directory / WEIGHTS).items():
        module, half = split_name(name)
        halves.setdefault(module, {})[half] = shape
    for module, pair in halves.items():
        if set(pair) != {"lora_A", "lora_B"} or pair["lora_A"][0] != rank or pair["lora_B"][-1] != rank:
            told = ", ".join(f"{half} {shape}" for half, shape in sorted(pair.items()))
            raise InputError(
                f"adapter {str(directory)!r} has {told} for module {module!r}, not lora_A and lora_B of rank {rank}"
            )
    targets = config.get("target_modules")
    if not isinstance(targets, list) or any(config.get(name) for name in _PARTIAL):
        targets = list(halves)
    return LoraConfig(rank=rank, alpha=scale_of(config) * rank, targets=tuple(sorted(targets)))


def _tensor_shapes(path: Path) -> dict[str, list[int]]:
    """Name and shape of every tensor of a safetensors file, which must be as long as its header says."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            size = path.stat().st_size - 8 - length
            entries = json.loads(file.read(length)) if size >= 0 else {}
        entries.pop("__metadata__", None)
        shapes = {str(name): [int(n) for n in entry["shape"]] for name, entry in entries.items()}
        whole = bool(shapes) and max(int(entry["data_offsets"][1]) for entry in entries.values()) == size
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{str(path)!r} cannot be read: {error!r}") from error
    if not whole or not all(shapes.values()):
        raise InputError(f"{str(path)!r} is not a whole safetensors file with an adapter in it")
    return shapes
