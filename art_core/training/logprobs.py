"""Forward and backward passes over a tree of shared prefixes, with exact gradients and bounded memory.

Where all fits into one pack it is one pass through the model. Otherwise a node leaves its keys and values behind, and
everything below it sees *detached* copies of them, each a leaf of the autograd graph, and is run forward and backward one
pack at a time, while the gradients of the copies add up; then the node's own backward pass starts from those sums. The
result is the gradient of the padded form, and only one pack plus the nodes above it are in memory.

The vocabulary head runs only at positions that predict a trained token, in chunks, each with its own backward pass, so
that logits never take more than a fixed amount of memory.

Letters: S tokens of a pack, N positions, Q trained tokens, V vocabulary, H key/value heads, P cached tokens, D head size.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from transformers import PreTrainedModel
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from art_core.errors import describe
from art_core.models.compute import COMPUTE
from art_core.models.config import Precision
from art_core.models.folded_lora import FoldedLora
from art_core.models.head import compact_logits
from art_core.models.probe import PRECISIONS
from art_core.trajectory.graph import PolicyVersion
from art_core.trajectory.samples import TrainingSample

from .packing import Node, Pack, build_tree
from .pick import pick_logprobs
from .tree_attention import TreePlan, use_tree_attention

if TYPE_CHECKING:
    from peft import PeftModel

__all__ = ["OnTokens", "SplitModel", "run_tree"]

OnTokens = Callable[[Pack, torch.Tensor, torch.Tensor], torch.Tensor | None]
"""``(pack, ask, logprobs)``: ``ask`` (Q,) indexes the pack's trained tokens, ``logprobs`` (Q,) are theirs, float32.
Returns the loss to differentiate, or None when gradients are not wanted."""

KeyValues = list[tuple[torch.Tensor, torch.Tensor]]

_LOGIT_ELEMENTS = 1 << 24  # positions times vocabulary of one chunk of logits: 64 MiB in float32
_PROBE_TOKENS = 8

_log = logging.getLogger(__name__)


class SplitModel:
    """A causal language model seen as a backbone (ids to hidden states) and a head (hidden states to logits).

    The split is checked against the model's own logits once; where a family does something to its logits that is not
    known here, the whole model is run as the backbone. Attention over a tree of segments is checked the same way:
    ``shares_prefixes`` is False where it does not reproduce the plain forward pass (recurrent layers, for example), and
    every row must then be a pack of its own.

    Where all that is trained is a LoRA, its folded form computes (see ``models.folded_lora``), whole in the chosen
    precision; anything else computes as it is, under autocast.
    """

    def __init__(self, model: torch.nn.Module, *, precision: Precision = "float32") -> None:
        base = model.get_base_model() if hasattr(model, "get_base_model") else model
        self._model: PreTrainedModel = base
        self._precision = precision
        self.device: torch.device = next(base.parameters()).device
        self.vocab_size: int = base.config.get_text_config().vocab_size
        self._split_head = True
        self.shares_prefixes = True
        with torch.no_grad():
            COMPUTE.give_way()
            self._split_head = self._head_agrees()
            self.shares_prefixes = self._tree_agrees()
        self._folded: FoldedLora | None = None
        if FoldedLora.fits(model):
            self._folded = FoldedLora(cast("PeftModel", model), dtype=PRECISIONS[precision])
            self._model = self._folded.model

    def refresh(self) -> None:
        """Compute with the parameters as they are now: before each walk over a tree."""
        if self._folded is not None:
            self._folded.fold()

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Let others compute first, then compute in the chosen precision."""
        COMPUTE.give_way()
        autocast = self._folded is None and self._precision == "bfloat16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=autocast):
            yield

    def hidden(self, pack: Pack, cache: Cache | None) -> torch.Tensor:
        """(S, hidden) of a pack that follows what ``cache`` holds; the cache is extended."""
        keywords: dict[str, Any] = {
            "input_ids": torch.from_numpy(pack.token_ids).to(self.device)[None],
            "past_key_values": cache,
            "use_cache": cache is not None,
        }
        if self.shares_prefixes:
            keywords["position_ids"] = torch.from_numpy(pack.positions).to(self.device)[None]
            keywords["tree_plan"] = TreePlan(pack, self.device)
        if self._split_head:
            output: torch.Tensor = self._model.base_model(**keywords).last_hidden_state[0]
        else:
            output = self._model(**keywords).logits[0]
        return output

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """(N, V) logits of (N, hidden) hidden states."""
        return compact_logits(self._model, hidden) if self._split_head else hidden

    def _head_agrees(self) -> bool:
        plain = self._model(input_ids=self._probe_ids()[None], use_cache=False).logits[0].float()
        try:
            hidden = self._model.base_model(input_ids=self._probe_ids()[None], use_cache=False).last_hidden_state[0]
            return self._close(compact_logits(self._model, hidden), plain)
        except AttributeError:  # no plain backbone or head under the usual names
            return False

    def _tree_agrees(self) -> bool:
        """Whether rows with common starts, as a pack after a cached one, come out as when each is run whole."""
        start = self._probe_ids().tolist()
        rows = [start, [*start[:6], start[1], start[0]], [*start[:4], start[2], start[0]]]
        tree = build_tree([_probe_row(row) for row in rows], micro_batch_tokens=8, min_shared_tokens=1)
        ((node,), own) = tree.children, self._model.config._attn_implementation
        (pack,) = node.packs
        assert node.pack is not None
        try:
            self._model.set_attn_implementation(
                "eager"
            )  # the only one that does all that a family's attention asks for
            ids = [torch.tensor([row], device=self.device) for row in rows]
            whole = [self._model(input_ids=row, use_cache=False).logits[0].float() for row in ids]
            use_tree_attention(self._model)
            cache = DynamicCache()
            self.hidden(node.pack, cache)
            together = self.logits(self.hidden(pack, _past(_key_values(cache))))
        except Exception as error:  # noqa: BLE001 - any failure of a foreign model means: do not share
            reason = f"attention over a tree failed with {describe(error)}"
        else:
            if self._close(together, torch.cat([whole[0][4:], whole[1][6:], whole[2][4:]])):
                return True
            reason = "attention over a tree changes its results"
        self._model.set_attn_implementation(own)
        _log.warning("prompts are not shared in training: in this model %s", reason)
        return False

    def _close(self, left: torch.Tensor, right: torch.Tensor) -> bool:
        # bfloat16 rounds at 2^-8 and two orders of summation differ by a few such steps
        tolerance = 1e-3 if self._model.dtype == torch.float32 else 0.1
        return bool((left.float() - right.float()).abs().max() <= tolerance * max(1.0, float(right.abs().max())))

    def _probe_ids(self) -> torch.Tensor:
        return torch.arange(_PROBE_TOKENS, device=self.device) % self.vocab_size


def run_tree(model: SplitModel, root: Node, on_tokens: OnTokens, *, gradients: bool, frugal: bool = False) -> None:
    """Visit every pack of a tree; with ``gradients``, add those of all losses to the parameters' ``grad``.

    ``frugal``: compute the run of a node twice instead of keeping what its backward pass needs while everything below
    is computed, as in gradient checkpointing (arXiv 1604.06174).

    ``on_tokens`` is called with the logprobs of trained tokens, ``log_softmax(logits / temperature)`` in float32, in
    pieces: one or more calls a pack. Between passes it gives way to others who want to compute.
    """
    model.refresh()
    with torch.set_grad_enabled(gradients):
        _Walk(model, on_tokens, gradients, frugal).below(root, [])


class _Walk:
    def __init__(self, model: SplitModel, on_tokens: OnTokens, gradients: bool, frugal: bool) -> None:
        self._model = model
        self._on_tokens = on_tokens
        self._gradients = gradients
        self._twice = frugal and gradients
        self._chunk = max(16, _LOGIT_ELEMENTS // model.vocab_size)

    def below(self, node: Node, past: KeyValues) -> None:
        for pack in node.packs:
            self._leaf(pack, past)
        for child in node.children:
            self._inner(child, past)

    def _leaf(self, pack: Pack, past: KeyValues) -> None:
        with self._model.turn():
            selected, gradient = self._forward(pack, _past(past) if past else None)
        with self._model.turn():
            self._backward([selected], [gradient])

    def _inner(self, node: Node, past: KeyValues) -> None:
        assert node.pack is not None
        if self._twice:
            with self._model.turn(), torch.no_grad():
                cache = _past(past) if past else DynamicCache()
                self._model.hidden(node.pack, cache)
                copies = _leaf_copies(_key_values(cache), trained=True)
                del cache
            self.below(node, copies)
        with self._model.turn():
            cache = _past(past) if past else DynamicCache()
            selected, gradient = self._forward(node.pack, cache)
            outputs = _key_values(cache)
        if not self._twice:
            copies = _leaf_copies(outputs, trained=self._gradients)
            self.below(node, copies)
        tensors, gradients = [selected], [gradient]
        for pair, copied in zip(outputs, copies, strict=True):
            tensors += pair
            gradients += [copy.grad for copy in copied]
        with self._model.turn():
            self._backward(tensors, gradients)

    def _forward(self, pack: Pack, cache: Cache | None) -> tuple[torch.Tensor, torch.Tensor | None]:
        """(N, hidden) states at the pack's slots, and the gradient of the losses with respect to them."""
        device = self._model.device
        selected = self._model.hidden(pack, cache)[torch.from_numpy(pack.slots).to(device)]
        gradient = torch.zeros_like(selected) if self._gradients else None
        temperatures = torch.from_numpy(pack.temperatures).to(device)
        slot_of = torch.from_numpy(pack.ask_slot).to(device)
        token_of = torch.from_numpy(pack.ask_token).to(device)
        for low in range(0, len(selected), self._chunk):
            piece = slice(low, low + self._chunk)
            states = selected[piece].detach().requires_grad_(self._gradients)
            ask = torch.nonzero((slot_of >= low) & (slot_of < low + self._chunk)).squeeze(1)
            logits = self._model.logits(states)
            logprobs = pick_logprobs(logits, temperatures[piece], slot_of[ask] - low, token_of[ask])
            loss = self._on_tokens(pack, ask, logprobs)
            if loss is not None and gradient is not None:
                loss.backward()
                gradient[piece] = states.grad
        return selected, gradient

    def _backward(self, tensors: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor | None]) -> None:
        if not self._gradients:
            return
        pairs = [
            (t, g.to(t.dtype)) for t, g in zip(tensors, gradients, strict=True) if g is not None and t.requires_grad
        ]
        if pairs:
            torch.autograd.backward([tensor for tensor, _ in pairs], [gradient for _, gradient in pairs])


class _PastLayer(DynamicLayer):  # type: ignore[misc]  # transformers is untyped here
    """One layer's keys and values of a prefix, each (1, H, P, D), that a pack continues.

    They are kept in float32 whatever the precision, so that the gradients of many packs add up in float32.
    """

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__()
        self.keys, self.values = keys, values
        self.dtype, self.device = keys.dtype, keys.device
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self.keys, self.values = _append(self.keys, key_states), _append(self.values, value_states)
        return self.keys, self.values


def _append(past: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    return torch.cat([past.to(new.dtype), new], dim=-2)


def _past(layers: KeyValues) -> Cache:
    return Cache(layers=[_PastLayer(keys, values) for keys, values in layers])


def _key_values(cache: Cache) -> KeyValues:
    return [(layer.keys, layer.values) for layer in cache.layers]


def _leaf_copies(layers: KeyValues, *, trained: bool) -> KeyValues:
    return [(_leaf_copy(keys, trained), _leaf_copy(values, trained)) for keys, values in layers]


def _leaf_copy(tensor: torch.Tensor, trained: bool) -> torch.Tensor:
    return tensor.detach().float().requires_grad_(trained)


def _probe_row(ids: Sequence[int]) -> TrainingSample:
    """A row whose passes compute all of ``ids``: one more token follows and is trained."""
    mask = np.arange(len(ids) + 1) == len(ids)
    return TrainingSample(
        token_ids=np.asarray([*ids, 0], dtype=np.int64),
        mask=mask,
        logprobs=np.zeros(len(mask), dtype=np.float32),
        temperature=1.0,
        version=PolicyVersion("probe", 0),
        adapter="probe",
        rollout_id="probe",
    )
