"""The logprobs of given rows and the gradient of one weighted sum of them, computed in ways that should agree.

``plain_pass`` is the model as transformers runs it: eager attention over whole rows, padded into one batch. ``tree_pass`` is
the trainer's way. Neither changes a weight; gradients that parameters held are gone afterwards. Every call belongs on the
compute thread.

Letters: B rows of a batch, L tokens of a row, V vocabulary.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from art_core.models.config import Precision
from art_core.trajectory.samples import TrainingSample

from .config import TrainingConfig
from .logprobs import SplitModel, run_tree
from .packing import Pack, build_tree

__all__ = ["Pass", "perturb_adapter", "plain_pass", "tree_pass"]

Rows = Sequence[TrainingSample]
_SHIFT = 5  # tokens of padding: no multiple of what a processor adds up at once


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pass:
    """What one way of computing came to."""

    logprobs: list[NDArray[np.float32]]
    """Per row (L,) logprobs of its trained tokens at its temperature, in nats; 0 elsewhere."""
    gradient: Mapping[str, torch.Tensor]
    """By parameter name, that of the sum over rows of coefficient times the mean logprob of its trained tokens; empty where
    no gradient was asked for."""
    forward_tokens: int
    """Tokens that went through the model, padding not counted."""

    def distance(self, other: Pass) -> float:
        """L2 norm of the difference of the gradients over that of ``other``'s; infinite where they have other parameters."""
        if self.gradient.keys() != other.gradient.keys():
            return float("inf")
        pairs = [(self.gradient[name].double(), other.gradient[name].double()) for name in other.gradient]
        apart = sum(float((mine - theirs).square().sum()) for mine, theirs in pairs)
        size = sum(float(theirs.square().sum()) for _, theirs in pairs)
        return float((apart / size) ** 0.5) if size else (float("inf") if apart else 0.0)


def plain_pass(
    model: torch.nn.Module,
    rows: Rows,
    coefficients: Sequence[float] | None = None,
    *,
    precision: Precision,
    reordered: bool = False,
) -> Pass:
    """Rows as one padded batch through the model as transformers runs it.

    Args:
        model: a PEFT model, or any transformers causal language model.
        coefficients: one a row, for the gradient; None computes none.
        precision: ``bfloat16`` runs matrix products of float32 weights in it (autocast).
        reordered: add up in another order: the products of every linear layer backwards, those of attention shifted by
            padding on the left instead of the right. On paper nothing changes.
    """
    model.zero_grad()
    with contextlib.ExitStack() as stack:
        stack.enter_context(_eager(model))
        stack.enter_context(torch.set_grad_enabled(coefficients is not None))
        if reordered:
            stack.enter_context(_backwards(model))
        values = _plain(rows, model, precision, left=reordered)
        if coefficients is not None:
            losses = [share * of_row.mean() for share, of_row in zip(coefficients, values, strict=True)]
            torch.stack(losses).sum().backward()
    found = [np.zeros(len(row.token_ids), dtype=np.float32) for row in rows]
    for logprobs, row, of_row in zip(found, rows, values, strict=True):
        logprobs[row.mask] = of_row.detach().cpu().numpy()
    return Pass(logprobs=found, gradient=_taken(model), forward_tokens=sum(len(row.token_ids) for row in rows))


def _plain(rows: Rows, model: torch.nn.Module, precision: Precision, *, left: bool) -> list[torch.Tensor]:
    """Per row the logprobs of its trained tokens, from one forward pass of all."""
    device = next(model.parameters()).device
    lengths = [len(row.token_ids) for row in rows]
    width = max(lengths) + (_SHIFT if left else 0)
    begins = [width - length if left else 0 for length in lengths]
    ids, seen, positions = (np.zeros((len(rows), width), dtype=np.int64) for _ in range(3))
    for number, (row, begin, length) in enumerate(zip(rows, begins, lengths, strict=True)):
        ids[number, begin : begin + length] = row.token_ids
        seen[number, begin : begin + length] = 1
        positions[number, begin : begin + length] = np.arange(length)
    with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16"):
        logits = model(
            input_ids=torch.from_numpy(ids).to(device),
            attention_mask=torch.from_numpy(seen).to(device),
            position_ids=torch.from_numpy(positions).to(device),
            use_cache=False,
        ).logits  # (B, L, V)
    found = []
    for number, (row, begin) in enumerate(zip(rows, begins, strict=True)):
        places = torch.from_numpy(np.flatnonzero(row.mask)).to(device)
        tokens = torch.from_numpy(row.token_ids[row.mask]).to(device)
        scaled = logits[number, begin + places - 1].float() / row.temperature
        found.append(scaled.gather(1, tokens[:, None])[:, 0] - torch.logsumexp(scaled, dim=-1))
    return found


def tree_pass(
    model: torch.nn.Module,
    rows: Rows,
    coefficients: Sequence[float],
    *,
    precision: Precision,
    config: TrainingConfig,
    shared: bool,
) -> Pass:
    """Rows as the trainer runs them: with ``shared`` as one tree, otherwise each in a pack of its own."""
    split = SplitModel(model, precision=precision)
    tree = build_tree(
        rows,
        micro_batch_tokens=config.micro_batch_tokens,
        min_shared_tokens=config.min_shared_tokens if shared and split.shares_prefixes else None,
    )
    found = [np.zeros(len(row.token_ids), dtype=np.float32) for row in rows]
    shares = np.asarray([c / row.trained_tokens for c, row in zip(coefficients, rows, strict=True)], dtype=np.float32)

    def on_tokens(pack: Pack, ask: torch.Tensor, logprobs: torch.Tensor) -> torch.Tensor:
        index = ask.cpu().numpy()
        asked = pack.ask_row[index]
        values = logprobs.detach().cpu().numpy()
        for row, position, value in zip(asked, pack.ask_position[index], values, strict=True):
            found[row][position] = value
        return (torch.from_numpy(shares[asked]).to(logprobs.device) * logprobs).sum()

    model.zero_grad()
    run_tree(split, tree, on_tokens, gradients=True)
    computed = sum(len(pack.token_ids) for pack in tree.every_pack())
    return Pass(logprobs=found, gradient=_taken(model), forward_tokens=computed)


@torch.no_grad()
def perturb_adapter(model: torch.nn.Module, *, seed: int, size: float = 0.02) -> None:
    """Give a fresh adapter an effect: every B is filled with normal noise of standard deviation ``size``.

    The same seed gives the same adapter.
    """
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if ".lora_B." in name:
            noise = torch.randn(parameter.shape, generator=generator) * size
            parameter.copy_(noise.to(parameter.device, parameter.dtype))


def _taken(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The gradients of the model's parameters, which then hold none."""
    found = {name: p.grad.detach().clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return found


@contextlib.contextmanager
def _eager(model: torch.nn.Module) -> Iterator[None]:
    """Attention in its plainest form: the only one that does all that every family's attention asks for."""
    base: PreTrainedModel = model.get_base_model() if hasattr(model, "get_base_model") else model
    own = base.config._attn_implementation
    base.set_attn_implementation("eager")
    try:
        yield
    finally:
        base.set_attn_implementation(own)


@contextlib.contextmanager
def _backwards(model: torch.nn.Module) -> Iterator[None]:
    """Every linear layer adds up its products from the last to the first."""
    linear = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
    for module in linear:
        module.forward = functools.partial(_reversed_linear, module)
    try:
        yield
    finally:
        for module in linear:
            del module.forward


def _reversed_linear(module: torch.nn.Linear, inputs: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.linear(inputs.flip(-1), module.weight.flip(-1), module.bias)
