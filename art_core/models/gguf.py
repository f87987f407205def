"""Turning a GGUF file into a model directory that transformers loads as it is: float32 weights and the true tokenizer.

Weights are dequantised, so the result is exactly what the file encodes. The tokenizer's special tokens come from the
file's own metadata, because the generic reader mixes up begin and end, leaves padding out, and ignores how the
vocabulary expects text to be split.
"""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import torch
from gguf import GGUFReader
from tokenizers import Tokenizer, decoders, pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig, PreTrainedTokenizerFast
from transformers.utils import logging as transformers_logging

from art_core.errors import InputError

__all__ = ["convert"]


def convert(source: Path, target: Path) -> None:
    """Write the model in the GGUF file ``source`` to the new directory ``target``.

    Raises:
        InputError: the file is not GGUF.
    """
    try:
        metadata = _metadata(source)
    except ValueError as error:
        raise InputError(f"{source} is not a GGUF file: {error}") from error
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        tokenizer = _tokenizer(source, metadata)
        with contextlib.redirect_stderr(io.StringIO()):  # the reader's own progress bar, which has no switch
            model = AutoModelForCausalLM.from_pretrained(
                source.parent,
                gguf_file=source.name,
                dtype=torch.float32,
                quantization_config=GgufConfig(dequantize=True),
            )
        for owner in (model.config, model.generation_config):
            owner.bos_token_id = tokenizer.bos_token_id
            owner.eos_token_id = tokenizer.eos_token_id
            owner.pad_token_id = tokenizer.pad_token_id
        model.save_pretrained(target)
        tokenizer.save_pretrained(target)
    finally:
        transformers_logging.enable_progress_bar()
        transformers_logging.set_verbosity(verbosity)


def _metadata(source: Path) -> dict[str, Any]:
    """The file's scalar metadata; arrays (the vocabulary) are left out."""
    fields = GGUFReader(source).fields
    return {name: field.contents() for name, field in fields.items() if len(field.data) == 1}


def _tokenizer(source: Path, metadata: dict[str, Any]) -> PreTrainedTokenizerFast:
    read = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    backend: Tokenizer = read.backend_tokenizer
    if metadata.get("tokenizer.ggml.pre") == "smollm":  # each digit is a token of its own
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
        backend.decoder = decoders.ByteLevel()

    def token(kind: str, default: str) -> str:
        identity = metadata.get(f"tokenizer.ggml.{kind}_token_id", metadata.get(f"tokenizer.ggml.{default}_token_id"))
        if identity is None:
            raise InputError(f"{source} names neither a {kind} nor a {default} token")
        if (text := backend.id_to_token(identity)) is None:
            raise InputError(f"{source} has no token {identity!r}, which it names as its {kind} token")
        return text

    context = metadata.get(f"{metadata['general.architecture']}.context_length")
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=token("bos", "eos"),
        eos_token=token("eos", "bos"),
        pad_token=token("padding", "eos"),
        unk_token=token("unknown", "eos"),
        chat_template=read.chat_template,
        model_max_length=context,
        clean_up_tokenization_spaces=False,
    )
