"""Tiny random models and rows for the trainer's tests: small enough that one thread trains them in milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
)

from art_core.trajectory.graph import PolicyVersion
from art_core.trajectory.samples import TrainingSample
from tests.tiny import FAMILIES, VOCAB, tiny_model

_SHAPE: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 512,
    "initializer_range": 0.2,
}
_MORE = {
    "llama-untied": lambda: LlamaForCausalLM(LlamaConfig(**_SHAPE, tie_word_embeddings=False)),
    "llama-mha": lambda: LlamaForCausalLM(LlamaConfig(**_SHAPE | {"num_key_value_heads": 4})),
    "mistral-full": lambda: MistralForCausalLM(MistralConfig(**_SHAPE, sliding_window=None)),
    "gemma2": lambda: Gemma2ForCausalLM(Gemma2Config(**_SHAPE, sliding_window=9, query_pre_attn_scalar=8)),
}
FAMILY_NAMES = [*FAMILIES, *_MORE]


def build(family: str = "llama-untied", seed: int = 0) -> PreTrainedModel:
    """A random model of a family; the same seed gives the same weights."""
    if family in FAMILIES:
        return tiny_model(family, seed=seed)
    torch.manual_seed(seed)
    return _MORE[family]().eval()


def lora(family: str = "llama-untied", seed: int = 0, rank: int = 4, **options: Any) -> PeftModel:
    """A random model with an adapter that already does something (B is not zero)."""
    model = get_peft_model(
        build(family, seed), LoraConfig(r=rank, lora_alpha=2 * rank, **{"target_modules": "all-linear"} | options)
    )
    torch.manual_seed(seed + 1)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    return model


def row(
    ids: Sequence[int],
    trained: Sequence[int],
    *,
    logprob: float = -4.5,
    temperature: float = 1.0,
    adapter: str = "default",
    rollout_id: str = "r",
) -> TrainingSample:
    """A sample of ``ids`` whose positions ``trained`` are trained."""
    mask = np.zeros(len(ids), dtype=np.bool_)
    mask[list(trained)] = True
    return TrainingSample(
        token_ids=np.asarray(ids, dtype=np.int64),
        mask=mask,
        logprobs=np.where(mask, logprob, 0.0).astype(np.float32),
        temperature=temperature,
        version=PolicyVersion(adapter, 0),
        adapter=adapter,
        rollout_id=rollout_id,
    )


def step_rows(seed: int = 0, *, temperature: float = 1.0) -> tuple[list[TrainingSample], list[float]]:
    """Three groups of four rows: a prefix common to all, one per group, and a two-turn completion of uneven length."""
    rng = np.random.default_rng(seed)
    system = rng.integers(0, VOCAB, 14).tolist()
    samples, advantages = [], []
    for group in range(3):
        prompt = system + rng.integers(0, VOCAB, 5).tolist()
        for sibling in range(4):
            first, tool, last = (rng.integers(0, VOCAB, int(rng.integers(2, 7))).tolist() for _ in range(3))
            begin = len(prompt) + len(first) + len(tool)
            trained = [*range(len(prompt), len(prompt) + len(first)), *range(begin, begin + len(last))]
            ids = prompt + first + tool + last
            samples.append(row(ids, trained, temperature=temperature, rollout_id=f"{group}-{sibling}"))
            advantages.append(float(rng.normal()))
    return samples, advantages


def gradient(model: torch.nn.Module) -> torch.Tensor:
    """All gradients of a model, end to end."""
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def weights(model: torch.nn.Module) -> torch.Tensor:
    """All trainable parameters of a model, end to end."""
    return torch.cat([p.detach().flatten() for p in model.parameters() if p.requires_grad])
