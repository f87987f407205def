"""A training checkpoint: a PEFT adapter that loads as it is, and beside it what continuing exactly needs.

    adapter_model.safetensors  adapter_config.json   what PeftModel.from_pretrained and vLLM load
    chat_template.jinja                              what the model was shown while it was trained
    optimizer.safetensors      trainer.json          AdamW's moments; counters and whatever the loop adds
    manifest.json                                    see ``manifest``

No file holds pickled objects. Loading changes nothing unless everything fits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel, get_peft_model_state_dict, set_peft_model_state_dict
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from art_core.errors import InputError
from art_core.models.compute import COMPUTE

from .manifest import verify, write_directory
from .trainer import GrpoTrainer

__all__ = ["load", "load_adapter", "read_extra", "save", "save_adapter"]

_WEIGHTS = "adapter_model.safetensors"
_OPTIMIZER = "optimizer.safetensors"
_TRAINER = "trainer.json"


def save_adapter(directory: Path, model: PeftModel, *, chat_template: str) -> None:
    """Write the active adapter of ``model`` alone, for an engine to load; whole or not at all.

    Raises:
        InputError: ``model`` has no PEFT adapter, or ``directory`` already holds one.
    """
    _need_adapter(model)
    write_directory(directory, lambda place: _write_adapter(place, model, chat_template))


def save(directory: Path, trainer: GrpoTrainer, *, chat_template: str, extra: Mapping[str, Any] | None = None) -> None:
    """Write a checkpoint; whole or not at all.

    Args:
        directory: its place, by custom ``checkpoints/step-NNNNNN``.
        trainer: of a PEFT model.
        chat_template: Jinja source.
        extra: JSON data that ``load`` gives back, such as the position in the data.

    Raises:
        InputError: the model has no PEFT adapter, ``extra`` is not JSON, or ``directory`` is already a checkpoint.
    """
    _need_adapter(trainer.model)
    tensors, counters = trainer.state()
    try:
        text = json.dumps({"counters": counters, "extra": dict(extra or {})}, allow_nan=False, indent=2)
    except (TypeError, ValueError) as error:
        raise InputError(f"extra = {extra!r} cannot be saved in a checkpoint: {error}") from error

    def fill(place: Path) -> None:
        _write_adapter(place, trainer.model, chat_template)
        save_file({name: tensor.contiguous().cpu() for name, tensor in tensors.items()}, place / _OPTIMIZER)
        (place / _TRAINER).write_text(text + "\n", encoding="utf-8")

    write_directory(directory, fill)


def load(directory: Path, trainer: GrpoTrainer) -> dict[str, Any]:
    """Put adapter, optimizer and counters back as they were saved; returns the ``extra`` of that time.

    Raises:
        InputError: the directory is not a whole checkpoint, or one of another model or adapter; nothing was changed.
    """
    verify(directory)
    tensors = _read(directory / _OPTIMIZER)
    counters, extra = _read_trainer(directory)
    weights = _checked_weights(directory, trainer.model)
    COMPUTE.run(_put, trainer, tensors, counters, weights)
    return extra


def read_extra(directory: Path) -> dict[str, Any]:
    """The ``extra`` a checkpoint was saved with; loads no weights.

    Raises:
        InputError: the directory is not a whole checkpoint.
    """
    verify(directory)
    return _read_trainer(directory)[1]


def load_adapter(directory: Path, model: PeftModel) -> None:
    """Put the weights of a saved adapter into the active adapter of ``model``, which has the same form.

    Raises:
        InputError: a file cannot be read, or names or shapes differ; nothing was changed.
    """
    weights = _checked_weights(directory, model)
    COMPUTE.run(set_peft_model_state_dict, model, weights, adapter_name=model.active_adapter)


def _put(
    trainer: GrpoTrainer, tensors: dict[str, torch.Tensor], counters: dict[str, Any], weights: dict[str, torch.Tensor]
) -> None:
    trainer.load_state(tensors, counters)
    set_peft_model_state_dict(trainer.model, weights, adapter_name=trainer.model.active_adapter)


def _read_trainer(directory: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        saved = json.loads((directory / _TRAINER).read_text(encoding="utf-8"))
        return saved["counters"], dict(saved["extra"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{str(directory / _TRAINER)!r} cannot be read: {error}") from error


def _checked_weights(directory: Path, model: PeftModel) -> dict[str, torch.Tensor]:
    _need_adapter(model)
    weights = _read(directory / _WEIGHTS)
    present = get_peft_model_state_dict(model, adapter_name=model.active_adapter, save_embedding_layers=False)
    unknown, missing = sorted(weights.keys() - present.keys()), sorted(present.keys() - weights.keys())
    if unknown or missing:
        raise InputError(
            f"the adapter in {str(directory)!r} does not fit the model: it has {len(unknown)} tensors the model has not "
            f"(such as {unknown[:1]}) and lacks {len(missing)} (such as {missing[:1]})"
        )
    for name, tensor in weights.items():
        if tensor.shape != present[name].shape:
            raise InputError(
                f"the adapter in {str(directory)!r} does not fit the model: {name} has shape {tuple(tensor.shape)}, "
                f"the model needs {tuple(present[name].shape)}"
            )
    return weights


def _write_adapter(place: Path, model: PeftModel, chat_template: str) -> None:
    name = model.active_adapter
    tensors = get_peft_model_state_dict(model, adapter_name=name, save_embedding_layers=False)
    save_file(
        {key: tensor.detach().contiguous().cpu() for key, tensor in tensors.items()},
        place / _WEIGHTS,
        metadata={"format": "pt"},
    )
    config = model.peft_config[name].to_dict() | {"inference_mode": True}
    listed = {key: sorted(value) if isinstance(value, set) else value for key, value in config.items()}
    (place / "adapter_config.json").write_text(json.dumps(listed, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    (place / "chat_template.jinja").write_text(chat_template, encoding="utf-8")


def _need_adapter(model: Any) -> None:
    if not isinstance(model, PeftModel):
        raise InputError(f"a checkpoint holds a PEFT adapter, but the model is a plain {type(model).__name__}")


def _read(path: Path) -> dict[str, torch.Tensor]:
    try:
        return dict(load_file(path))
    except (OSError, SafetensorError) as error:
        raise InputError(f"{str(path)!r} cannot be read: {error}") from error
