"""Tiny random models, built in a blink: the shapes of real families at a thousandth of their size."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
)

VOCAB = 300

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

_COMMON = {
    "vocab_size": VOCAB,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "eos_token_id": None,
}

FAMILIES = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**_COMMON, tie_word_embeddings=True)),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**_COMMON, head_dim=16, tie_word_embeddings=False)),
    "mistral": lambda: MistralForCausalLM(MistralConfig(**_COMMON, head_dim=8, sliding_window=24)),
    "gemma3": lambda: Gemma3ForCausalLM(
        Gemma3TextConfig(
            **{**_COMMON, "num_hidden_layers": 4}, head_dim=16, sliding_window=24, sliding_window_pattern=2
        )
    ),
}


def tiny_model(family: str = "llama", *, seed: int = 0, context: int = 512) -> PreTrainedModel:
    """A random model of ``family`` with weights large enough that its distribution is far from uniform."""
    torch.manual_seed(seed)
    model = FAMILIES[family]()
    model.config.max_position_embeddings = context
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(4.0)
        model.get_output_embeddings().weight.mul_(4.0)
    return model.eval()


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level, no merges, with the ChatML markers and template; fewer than ``VOCAB`` ids."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bpe = Tokenizer(models.BPE(vocab={piece: number for number, piece in enumerate(alphabet)}, merges=[]))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|im_end|>")
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    tokenizer.chat_template = CHATML
    return tokenizer


def save_tiny(directory: Path, family: str = "llama", *, seed: int = 0, context: int = 512) -> Path:
    """A model directory as ``load_model`` takes it."""
    tiny_model(family, seed=seed, context=context).save_pretrained(directory)
    tiny_tokenizer().save_pretrained(directory)
    return directory
