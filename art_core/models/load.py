"""Loading a base model and its tokenizer by name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PretrainedConfig,
    PreTrainedModel,
)
from transformers.utils.logging import disable_progress_bar

from art_core.errors import InputError
from art_core.rendering.tokenizer import TransformersTokenizer

from .compute import COMPUTE
from .head import check_head
from .registry import resolve

__all__ = ["LoadedModel", "context_of", "load_context", "load_model", "load_tokenizer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A base model ready to be adapted."""

    name: str
    path: Path
    model: PreTrainedModel
    tokenizer: TransformersTokenizer
    context: int
    """Longest sequence in tokens."""


def load_model(name: str, *, device: str = "cpu", chat_template: str | None = None) -> LoadedModel:
    """Load base weights in float32 onto ``device``; ``name`` is a known model, a directory, or a cached hub id.

    ``chat_template`` (Jinja source) replaces that of the tokenizer.

    Raises:
        InputError: unknown name (says which are known), or files that are not a causal language model.
    """
    return COMPUTE.run(_load, name, device, chat_template)


def _load(name: str, device: str, chat_template: str | None) -> LoadedModel:
    path = resolve(name)
    tokenizer = load_tokenizer(name, chat_template=chat_template)
    disable_progress_bar()
    try:
        model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise _unusable(name, path, error) from error
    model.to(device).eval()
    check_head(model)
    return LoadedModel(name=name, path=path, model=model, tokenizer=tokenizer, context=context_of(model.config))


def load_tokenizer(name: str, *, chat_template: str | None = None) -> TransformersTokenizer:
    """The tokenizer of a model alone; the end ids of the model's generation configuration end a turn too.

    Raises:
        InputError: see ``load_model``.
    """
    path = resolve(name)
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
        return TransformersTokenizer(tokenizer, stop_ids=_end_ids(path), chat_template=chat_template)
    except (OSError, ValueError, KeyError) as error:
        raise _unusable(name, path, error) from error


def load_context(name: str) -> int:
    """The longest sequence of a model in tokens; reads its configuration alone.

    Raises:
        InputError: see ``load_model``.
    """
    path = resolve(name)
    try:
        return context_of(AutoConfig.from_pretrained(path, local_files_only=True))
    except (OSError, ValueError, KeyError) as error:
        raise _unusable(name, path, error) from error


def context_of(config: PretrainedConfig) -> int:
    """The longest sequence whose logprobs depend on nothing but itself.

    Rotary embeddings of the kinds ``dynamic`` and ``longrope`` change for a whole batch as soon as one row of it is longer
    than the model was first trained on, so such a model is used up to that length.
    """
    text = config.get_text_config()
    longest = int(getattr(text, "max_position_embeddings", 0) or 2048)
    rope = getattr(text, "rope_parameters", None) or getattr(text, "rope_scaling", None) or {}
    if rope.get("rope_type", rope.get("type")) not in ("dynamic", "longrope"):
        return longest
    first = rope.get("original_max_position_embeddings") or getattr(text, "original_max_position_embeddings", None)
    return min(longest, int(first or longest))


def _end_ids(path: Path) -> list[int]:
    if not (path / "generation_config.json").is_file():
        return []
    ids = GenerationConfig.from_pretrained(path, local_files_only=True).eos_token_id
    return ids if isinstance(ids, list) else [] if ids is None else [ids]


def _unusable(name: str, path: Path, error: Exception) -> InputError:
    return InputError(f"model {name!r} at {str(path)!r} cannot be loaded: {' '.join(str(error).split())}")
