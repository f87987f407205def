"""From hidden states to logits: the vocabulary head with what some families do to its output."""

from __future__ import annotations

import torch
from transformers import PreTrainedModel

from art_core.errors import InputError

__all__ = ["check_head", "compact_logits", "head_logits"]


def head_logits(model: PreTrainedModel, hidden: torch.Tensor) -> torch.Tensor:
    """(n, V) float32 logits of (n, hidden) last hidden states.

    Applies what the config asks for: final soft-capping (Gemma), a logit scale (Cohere, Granite).
    """
    return compact_logits(model, hidden).float()


def compact_logits(model: PreTrainedModel, hidden: torch.Tensor) -> torch.Tensor:
    """As ``head_logits``, but in the type they were computed in where nothing is done to them any more."""
    logits: torch.Tensor = model.get_output_embeddings()(hidden)
    config = model.config.get_text_config()
    if (scale := getattr(config, "logit_scale", None)) is not None:
        logits = logits.float() * scale
    if (divisor := getattr(config, "logits_scaling", None)) is not None:
        logits = logits.float() / divisor
    if (cap := getattr(config, "final_logit_softcapping", None)) is not None:
        logits = torch.tanh(logits.float() / cap) * cap
    return logits


@torch.no_grad()
def check_head(model: PreTrainedModel, tolerance: float = 1e-3) -> None:
    """Compare ``head_logits`` with the model's own forward on three ids.

    Raises:
        InputError: they differ, so this architecture does something to its logits that is not known here.
    """
    ids = torch.tensor([[0, 1, 2]], device=model.device) % model.config.get_text_config().vocab_size
    own = model(input_ids=ids, use_cache=False).logits[0].float()
    ours = head_logits(model, model.base_model(input_ids=ids, use_cache=False).last_hidden_state[0])
    gap = (own - ours).abs().max().item()
    scale = max(1.0, own.abs().max().item())
    if not gap <= tolerance * scale:
        raise InputError(
            f"model type {model.config.model_type!r} changes its logits in a way that is not supported (gap {gap:.3g})"
        )
