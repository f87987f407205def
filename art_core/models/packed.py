"""Linear layers whose weights lie as oneDNN multiplies them fastest.

A row-major matrix is read badly by a product of a few dozen rows, and some of the time goes into laying it out anew. A
packed one costs that once. Where the processor or this build of torch cannot do it, the plain layer stays.

Letters: n rows.
"""

from __future__ import annotations

import functools

import torch

from .compute import COMPUTE

__all__ = ["PackedLinear", "can_pack", "pack", "product"]

_ROWS = 32  # rows of the products that the layout is chosen for; it serves all others well, see docs/benchmarks.md


def pack(weight: torch.Tensor) -> torch.Tensor:
    """The packed form of an (out, in) matrix: opaque, for ``product`` alone. ``can_pack`` must hold."""
    packed: torch.Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), _ROWS)
    return packed


def product(x: torch.Tensor, packed: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """(..., out) ``x W^T + bias`` of (..., in) ``x`` in the type of W; no gradient flows through it."""
    result: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")
    return result


@functools.cache
def can_pack(device: str, dtype: torch.dtype) -> bool:
    """Whether matrices of that type on that device can be packed here, tried out on a small one."""
    return device == "cpu" and torch.backends.mkldnn.is_available() and COMPUTE.run(_works, dtype)


def _works(dtype: torch.dtype) -> bool:
    weight = (torch.arange(48).reshape(6, 8) % 5 - 2).to(dtype)  # products are small integers: exact in every type
    x = (torch.arange(24).reshape(3, 8) % 3 - 1).to(dtype)
    try:
        with torch.no_grad():
            return bool(torch.equal(product(x, pack(weight)), x @ weight.t()))
    except (AttributeError, RuntimeError):  # no such operator, or not for this processor
        return False


class PackedLinear(torch.nn.Module):  # type: ignore[misc]  # torch is untyped there
    """A linear layer that keeps nothing but the packed form of its weight; for inference."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        self.bias = None if bias is None else torch.nn.Parameter(bias.detach(), requires_grad=False)
        self.set(weight)

    def set(self, weight: torch.Tensor) -> None:
        """Compute with another (out, in) weight from now on."""
        self._packed = pack(weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return product(x, self._packed, self.bias)
