"""Writing model directories for deployment: merged weights, adapters, and the tokenizer with its chat template.

A merged weight is W + s B A in float32 from the pristine W, rounded once; the base in memory stays as it was.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, GenerationConfig

from art_core.errors import ArtError
from art_core.rendering.templates import ChatTemplate
from art_core.rendering.tokenizer import TransformersTokenizer

from .adapter import CONFIG, WEIGHTS
from .compute import COMPUTE
from .fold import FoldedModel
from .load import LoadedModel
from .lora import AdapterWeights

__all__ = ["eos_ids", "generation_config", "write_adapter", "write_merged", "write_tokenizer"]

_MESSAGES = [{"role": "user", "content": "What time is it in Zürich, and how long is the way to 東京?"}]
_TOOL = {
    "type": "function",
    "function": {
        "name": "get_time",
        "description": "The time in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def write_adapter(place: Path, source: Path, base: LoadedModel, *, dtype: str | None) -> None:
    """Write the PEFT adapter in ``source``; its weights byte for byte, unless ``dtype`` asks for another precision.

    Its configuration names the base as it can be found again: by its id, or the directory it was loaded from.
    """
    config = json.loads((source / CONFIG).read_text(encoding="utf-8"))
    is_id = "/" in base.name and not Path(base.name).expanduser().is_dir()
    named = {"base_model_name_or_path": base.name if is_id else str(base.path.absolute()), "inference_mode": True}
    (place / CONFIG).write_text(json.dumps(config | named, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    if dtype is None:
        shutil.copyfile(source / WEIGHTS, place / WEIGHTS)
    else:
        tensors = {name: tensor.to(getattr(torch, dtype)) for name, tensor in load_file(source / WEIGHTS).items()}
        save_file(tensors, place / WEIGHTS, metadata={"format": "pt"})


def write_merged(
    place: Path, base: LoadedModel, adapter: AdapterWeights, *, dtype: str, stop_ids: frozenset[int]
) -> None:
    """Write weights and configuration of the base with ``adapter`` merged in.

    ``stop_ids`` join the ids at which the base's generation configuration ends a reply.
    """
    folded = FoldedModel(base.model, dtype=getattr(torch, dtype))
    COMPUTE.run(folded.fold, adapter)
    model = folded.model
    if model.get_output_embeddings().weight is not model.get_input_embeddings().weight:  # an adapted head has no twin
        for config in (model.config, model.config.get_text_config()):
            config.tie_word_embeddings = False
    model.generation_config = GenerationConfig()  # the base's own goes over as it is, even where it would not validate
    model.save_pretrained(place)
    generation = generation_config(base)
    generation["eos_token_id"] = sorted(eos_ids(generation) | stop_ids)
    (place / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n", encoding="utf-8")


def write_tokenizer(place: Path, tokenizer: TransformersTokenizer) -> None:
    """Write a tokenizer with its chat template, and see that a stock loader renders a first turn with it as we do.

    Raises:
        ArtError: it does not.
    """
    tokenizer.tokenizer.chat_template = tokenizer.chat_template
    tokenizer.tokenizer.save_pretrained(place)
    stock = AutoTokenizer.from_pretrained(place, local_files_only=True)
    template = ChatTemplate(tokenizer.chat_template, tokenizer.special_tokens)
    for tools in (None, [_TOOL]):
        ours = tokenizer.encode(template.render(_MESSAGES, tools, add_generation_prompt=True))
        theirs = stock.apply_chat_template(_MESSAGES, tools=tools, add_generation_prompt=True)["input_ids"]
        if list(theirs) != ours:
            raise ArtError(
                f"the written tokenizer renders a first turn {'with a tool' if tools else 'without tools'} as "
                f"{len(theirs)} ids that are not the {len(ours)} the model was trained on"
            )


def generation_config(base: LoadedModel) -> dict[str, Any]:
    """What the base's generation_config.json holds, or what follows from its config where it has none."""
    file = base.path / "generation_config.json"
    if file.is_file():
        return dict(json.loads(file.read_text(encoding="utf-8")))
    return dict(GenerationConfig.from_model_config(base.model.config).to_diff_dict())


def eos_ids(generation: dict[str, Any]) -> set[int]:
    """The ids at which a generation configuration ends a reply."""
    ids = generation.get("eos_token_id")
    return set(ids) if isinstance(ids, list) else set() if ids is None else {int(ids)}
