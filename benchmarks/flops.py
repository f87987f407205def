"""How much arithmetic a step needs: floating-point operations counted from the model's shape and the task.

A product of matrices counts 2 per multiplication and addition. Per token through the layers, forward: ``2 N`` for the N
parameters of their linear modules, and ``4 d`` for each pair of a query and a key it attends to, where d is query heads times
head size, summed over layers; per position whose next token is predicted: ``2 V h`` for the vocabulary head. Backward
through frozen weights costs as much again (the gradient of their inputs only), through attention twice, through the A
parameters of an adapter twice, so that training makes ``4 N + 6 A`` a token, ``12 d`` a pair and ``4 V h`` a prediction.
Norms, softmax, activation functions, drawing and the optimizer are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["Forward", "Shape", "group"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """What goes through a model once."""

    tokens: int
    predictions: int
    """Positions at which the vocabulary head runs."""
    pairs: int
    """Query and key positions that attend to each other."""

    def __add__(self, other: Forward) -> Forward:
        return Forward(
            tokens=self.tokens + other.tokens,
            predictions=self.predictions + other.predictions,
            pairs=self.pairs + other.pairs,
        )

    def times(self, count: int) -> Forward:
        """``count`` of these."""
        return Forward(tokens=self.tokens * count, predictions=self.predictions * count, pairs=self.pairs * count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The counts of a model that its arithmetic depends on."""

    linear: int
    """Parameters of linear modules in the layers: N above."""
    adapter: int
    """Parameters that are trained: A."""
    head: int
    """Vocabulary times hidden size: V h."""
    attention: int
    """Layers times query heads times head size: d summed over layers."""

    @classmethod
    def of(cls, model: torch.nn.Module) -> Shape:
        """Of a PEFT model with a LoRA."""
        base: Any = model.get_base_model() if hasattr(model, "get_base_model") else model
        config = base.config.get_text_config()
        adapter = sum(p.numel() for p in model.parameters() if p.requires_grad)
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        linear = sum(m.weight.numel() for m in base.base_model.modules() if isinstance(m, torch.nn.Linear))
        return cls(
            linear=linear - adapter,
            adapter=adapter,
            head=config.vocab_size * config.hidden_size,
            attention=config.num_hidden_layers * config.num_attention_heads * size,
        )

    def sampling(self, work: Forward) -> float:
        """Floating-point operations of a forward pass with the adapter folded in."""
        return 2.0 * (self.linear * work.tokens + self.head * work.predictions) + 4.0 * self.attention * work.pairs

    def training(self, work: Forward) -> float:
        """Floating-point operations of a forward and a backward pass."""
        per_token = 4 * self.linear + 6 * self.adapter
        return 1.0 * per_token * work.tokens + 4.0 * self.head * work.predictions + self.attending(work)

    def attending(self, work: Forward) -> float:
        """The part of ``training`` that grows with the length of what is attended to."""
        return 12.0 * self.attention * work.pairs


def group(prompt: int, new: int, size: int, *, shared: bool) -> Forward:
    """What sampling or training ``size`` completions of ``new`` tokens after one prompt has to compute.

    ``shared`` computes the prompt once; otherwise every row is computed whole. The last token predicts nothing.
    """
    longest = prompt + new - 1
    whole = Forward(tokens=longest, predictions=new, pairs=longest * (longest + 1) // 2)
    if not shared:
        return whole.times(size)
    once = Forward(tokens=prompt, predictions=1, pairs=prompt * (prompt + 1) // 2)
    rest = Forward(tokens=new - 1, predictions=new - 1, pairs=whole.pairs - once.pairs)
    return once + rest.times(size)
