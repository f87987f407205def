"""Training a LoRA through folded weights: forward with W' = W + s B A, gradients of A and B in the backward pass.

One matrix product a layer instead of three, in the type the sampler computes in, and from the bits it samples with. For
``y = W' x`` with the gradient ``g`` of ``y``::

    dx = W'^T g        dB = s g (A x)^T        dA = s (B^T g) x^T

which are the gradients of ``W x + s B (A x)``: only rounding tells the two apart (LoRA: arXiv 2106.09685, section 4.1).

Letters: n tokens, r rank.
"""

from __future__ import annotations

from typing import Any

import torch
from peft import PeftModel
from peft.tuners.lora import Linear as LoraLinear
from transformers import PreTrainedModel

from .fold import Pristine, share

__all__ = ["FoldedLora"]


class FoldedLora:
    """``model`` is a runnable copy of the base of a PEFT model that computes with its active adapter folded in.

    The copy shares every parameter it can; the adapted matrices are its own. Gradients land on the adapter's parameters.
    ``fold`` brings it up to date after these have changed.
    """

    def __init__(self, source: PeftModel, *, dtype: torch.dtype) -> None:
        """``fits(source)`` must hold."""
        name = source.active_adapter
        base = source.get_base_model()
        self.model: PreTrainedModel = share(base, dtype)
        self._layers: list[_FoldedLinear] = []
        for path, layer in base.named_modules():
            if isinstance(layer, LoraLinear):
                own = _FoldedLinear(layer, name, dtype)
                parent, _, leaf = path.rpartition(".")
                setattr(self.model.get_submodule(parent), leaf, own)
                self._layers.append(own)

    @staticmethod
    def fits(source: torch.nn.Module) -> bool:
        """Whether all that is trained in ``source`` are plain LoRA factors of linear layers, of one adapter."""
        if not isinstance(source, PeftModel) or not isinstance(source.active_adapter, str):
            return False
        name, foldable = source.active_adapter, set()
        for layer in source.modules():
            if isinstance(layer, LoraLinear) and _is_plain(layer, name):
                foldable |= {id(layer.lora_A[name].weight), id(layer.lora_B[name].weight)}
        return bool(foldable) and all(id(p) in foldable for p in source.parameters() if p.requires_grad)

    @torch.no_grad()
    def fold(self) -> None:
        """Take over the adapter as it is now; without it inside of ``disable_adapter``."""
        for layer in self._layers:
            layer.fold()


def _is_plain(layer: LoraLinear, name: str) -> bool:
    return (
        type(layer.base_layer) is torch.nn.Linear
        and list(layer.active_adapters) == [name]
        and name in layer.lora_A
        and not getattr(layer, "lora_variant", {}).get(name)  # such as DoRA
        and not layer.use_dora.get(name, False)
        and layer.lora_B[name].bias is None
        and not layer.merged
    )


class _FoldedLinear(torch.nn.Module):  # type: ignore[misc]  # torch is untyped there
    def __init__(self, layer: LoraLinear, name: str, dtype: torch.dtype) -> None:
        super().__init__()
        self._source = (layer, name)  # in a tuple, so that its parameters are not registered a second time
        bias = layer.base_layer.bias
        self.bias = None if bias is None else torch.nn.Parameter(bias.detach().to(dtype), requires_grad=False)
        self._pristine = Pristine(layer.base_layer.weight, dtype)
        self.register_buffer("weight", self._pristine.plain().clone())

    def fold(self) -> None:
        layer, name = self._source
        if layer.disable_adapters:
            self.weight.copy_(self._pristine.plain())
        else:
            self.weight.copy_(self._pristine.folded(*self._factors(), layer.scaling[name]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        layer, name = self._source
        product: torch.Tensor = _Product.apply(x, self.weight, *self._factors(), layer.scaling[name])
        return product if self.bias is None else product + self.bias

    def _factors(self) -> tuple[torch.Tensor, torch.Tensor]:
        layer, name = self._source
        return layer.lora_A[name].weight, layer.lora_B[name].weight


class _Product(torch.autograd.Function):  # type: ignore[misc]  # torch is untyped there
    """``x`` (..., in), ``weight`` (out, in), ``down`` (r, in), ``up`` (out, r) to (..., out)."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, down: torch.Tensor, up: torch.Tensor, scale: float
    ) -> torch.Tensor:
        ctx.save_for_backward(x, weight, down, up)
        ctx.scale = scale
        return torch.nn.functional.linear(x, weight)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        x, weight, down, up = ctx.saved_tensors
        flat, tokens = gradient.flatten(0, -2), x.flatten(0, -2)  # (n, out), (n, in)
        through = flat @ up.to(flat.dtype)  # (n, r)
        inner = tokens @ down.to(tokens.dtype).t()  # (n, r)
        return (
            (flat @ weight).view_as(x),
            None,
            (through.t() @ tokens).to(down.dtype).mul_(ctx.scale),
            (flat.t() @ inner).to(up.dtype).mul_(ctx.scale),
            None,
        )
