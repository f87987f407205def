"""Logprobs of chosen tokens from logits, without a second array of the logits' size.

``log_softmax(logits / T)`` in float32, a few rows at a time, so that what is between two passes over a row stays in the
processor's cache. The backward pass computes the probabilities again instead of keeping them.

Letters: N positions, V vocabulary, Q tokens asked for.
"""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["pick_logprobs"]

_TILE_ELEMENTS = 1 << 19  # of one tile in float32: 2 MiB


def pick_logprobs(
    logits: torch.Tensor, temperatures: torch.Tensor, slots: torch.Tensor, tokens: torch.Tensor
) -> torch.Tensor:
    """(Q,) float32 logprobs in nats of ``tokens`` (Q,) at the positions ``slots`` (Q,) of ``logits`` (N, V).

    ``temperatures`` (N,) divide the logits of each position. With gradients, ``logits`` are written over in the backward
    pass and must not be used again.
    """
    picked: torch.Tensor = _Pick.apply(logits, temperatures, slots, tokens)
    return picked


class _Pick(torch.autograd.Function):  # type: ignore[misc]  # torch is untyped there
    @staticmethod
    def forward(
        ctx: Any, logits: torch.Tensor, temperatures: torch.Tensor, slots: torch.Tensor, tokens: torch.Tensor
    ) -> torch.Tensor:
        normaliser = torch.cat(
            [torch.logsumexp(scaled, dim=-1) for _, scaled in _tiles(logits, temperatures)] or [temperatures]
        )
        ctx.save_for_backward(temperatures, normaliser, slots, tokens)
        ctx.logits = logits.detach()
        return logits[slots, tokens].float() / temperatures[slots] - normaliser[slots]

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        temperatures, normaliser, slots, tokens = ctx.saved_tensors
        logits, ctx.logits = ctx.logits, None
        per_position = torch.zeros_like(normaliser).index_add_(0, slots, gradient)
        for rows, scaled in _tiles(logits, temperatures):
            slope = scaled.sub_(normaliser[rows, None]).exp_().mul_((-per_position / temperatures)[rows, None])
            logits[rows] = slope
        logits.index_put_((slots, tokens), (gradient / temperatures[slots]).to(logits.dtype), accumulate=True)
        return logits, None, None, None


def _tiles(logits: torch.Tensor, temperatures: torch.Tensor) -> Any:
    """Slices of positions, and their logits over the temperature as a float32 array of its own."""
    height = max(1, _TILE_ELEMENTS // max(1, logits.shape[-1]))
    for low in range(0, len(logits), height):
        rows = slice(low, low + height)
        yield rows, logits[rows].to(torch.float32, copy=True).div_(temperatures[rows, None])
