"""A second set of weights for sampling: the base with an adapter folded in, the base itself never touched.

Sampling through an unfolded LoRA costs 20-30 % on a CPU. The copy shares every parameter it can with the base; only
the adapted matrices (all of them, where the precision differs, or ``apart`` or ``packed`` is asked for) have buffers of
their own, always written from the pristine W as W + s B A.
"""

from __future__ import annotations

import copy

import torch
from transformers import PreTrainedModel

from art_core.errors import InputError

from .lora import AdapterWeights
from .packed import PackedLinear, can_pack

__all__ = ["FoldedModel", "Pristine", "share"]


class Pristine:
    """A base matrix, which is never written, and what becomes of it in another type or with an adapter.

    A model that was published in bfloat16 has matrices that bfloat16 holds exactly. Rounded to the nearest, most of them would
    come out of a small update as they were. So there the sum is rounded up or down by a fixed pattern, each as often as
    its distance asks for: on average nothing is lost, whatever the size of the update, and without one nothing changes.
    """

    def __init__(self, weight: torch.Tensor, dtype: torch.dtype) -> None:
        self.weight = weight
        self._dtype = dtype
        self._exact = dtype == torch.bfloat16 and torch.equal(
            weight.detach().to(dtype).float(), weight.detach().float()
        )

    def plain(self) -> torch.Tensor:
        """W in the type asked for."""
        return self.weight.detach().to(self._dtype)

    def folded(self, down: torch.Tensor, up: torch.Tensor, scale: float) -> torch.Tensor:
        """(out, in) ``W + scale * up @ down``, computed in float32; ``down`` is (r, in), ``up`` (out, r)."""
        update = up.to(self.weight.device, torch.float32) @ down.to(self.weight.device, torch.float32)
        total = torch.add(self.weight.float(), update, alpha=scale)
        return _dithered(total) if self._exact else total.to(self._dtype)


def _dithered(values: torch.Tensor) -> torch.Tensor:
    """(m, n) float32 as bfloat16, rounded away from zero as often as the distance to it asks for, by a fixed pattern.

    A random number below the last place of bfloat16 is added to the bits, and what is below that place is cut off.
    """
    rows, columns = values.shape
    draws = torch.randint(1 << 16, (rows + columns,), generator=torch.Generator().manual_seed(0), dtype=torch.int32)
    draws = draws.to(values.device)
    noise = (draws[:rows, None] + draws[rows:]).bitwise_and_(0xFFFF)
    bits = noise.add_(values.view(torch.int32)).bitwise_and_(-0x10000)
    return bits.view(torch.float32).to(torch.bfloat16)


class FoldedModel:
    """``model`` is a runnable copy of ``base`` whose linear weights follow ``fold``.

    ``apart`` gives every linear matrix its own buffer from the start. Where a matrix lies in memory may decide how a
    product of it is added up; then it lies the same way whatever was folded before. ``packed`` keeps every linear matrix
    in the layout that is fastest to sample with, where there is one (see ``models.packed``).
    """

    def __init__(
        self, base: PreTrainedModel, *, dtype: torch.dtype | None = None, apart: bool = False, packed: bool = False
    ) -> None:
        self._dtype = dtype or base.dtype
        self._pristine = {
            name: Pristine(module.weight, self._dtype)
            for name, module in base.named_modules()
            if isinstance(module, torch.nn.Linear)
        }
        self._folded: set[str] = set()
        self.model = share(base, self._dtype)
        self._buffers: dict[str, torch.nn.Parameter] = {}
        self._packed: dict[str, PackedLinear] = {}
        for name in self._pristine if apart else ():
            self._own(name)
        if packed and can_pack(base.device.type, self._dtype):
            self._pack()

    def check(self, adapter: AdapterWeights) -> None:
        """Refuse an adapter that does not fit, before anything is changed.

        Raises:
            InputError: it names a module this model has not, or one of another shape.
        """
        for name, (down, up) in adapter.factors.items():
            pristine = self._pristine.get(name)
            if pristine is None or pristine.weight.shape != (up.shape[0], down.shape[1]):
                have = "no such linear module" if pristine is None else f"shape {tuple(pristine.weight.shape)}"
                raise InputError(
                    f"adapter module {name!r} ({up.shape[0]} x {down.shape[1]}) does not fit: the model has {have}"
                )

    @torch.no_grad()
    def fold(self, adapter: AdapterWeights | None) -> None:
        """Make the copy compute with ``adapter`` (None: the base alone).

        Raises:
            InputError: the adapter names a module this model has not, or one of another shape.
        """
        if adapter is not None:
            self.check(adapter)
        factors, scale = (adapter.factors, adapter.scale) if adapter else ({}, 0.0)
        before, self._folded = self._folded, self._folded | set(factors)  # should it fail half way
        for name in before - set(factors):
            self._write(name, self._pristine[name].plain())
        for name, (down, up) in factors.items():
            self._write(name, self._pristine[name].folded(down, up, scale))
        self._folded = set(factors)

    def _write(self, name: str, weight: torch.Tensor) -> None:
        if name in self._packed:
            self._packed[name].set(weight)
        else:
            self._own(name).copy_(weight)

    @torch.no_grad()
    def _pack(self) -> None:
        for name in self._pristine:
            layer = self.model.get_submodule(name)
            if type(layer) is torch.nn.Linear:
                self._packed[name] = PackedLinear(layer.weight, layer.bias)
                parent, _, leaf = name.rpartition(".")
                setattr(self.model.get_submodule(parent), leaf, self._packed[name])

    def _own(self, name: str) -> torch.nn.Parameter:
        """The copy's own buffer for a matrix, made when it is first written."""
        if name not in self._buffers:
            own = torch.nn.Parameter(self._pristine[name].plain().clone(), requires_grad=False)
            self.model.get_submodule(name).weight = own
            self._buffers[name] = own
        return self._buffers[name]


def share(base: PreTrainedModel, dtype: torch.dtype) -> PreTrainedModel:
    """A structural copy that holds the same parameters, or converted ones where ``dtype`` differs; ties stay ties."""
    shared = {
        id(p): p if p.dtype == dtype else torch.nn.Parameter(p.detach().to(dtype), requires_grad=False)
        for p in base.parameters()
    }
    twin: PreTrainedModel = copy.deepcopy(base, dict(shared))
    return twin.eval()
