"""Forward and backward passes over a tree of shared prefixes, with exact gradients and bounded memory.

A node is run at batch 1 and leaves its keys and values behind. Everything below it sees *detached* copies of them,
each a leaf of the autograd graph, and is run forward and backward one micro-batch at a time, while the gradients of the
copies add up; then the node's own backward pass starts from those sums. The result is the gradient of the padded form,
and only one micro-batch plus the nodes above it are in memory.

The vocabulary head runs only at positions that predict a trained token, in chunks, each with its own backward pass, so
that logits never take more than a fixed amount of memory.

Letters: N positions, Q trained tokens, V vocabulary, H key/value heads, P cached tokens, D head size.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from transformers import PreTrainedModel
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from art_core.errors import describe
from art_core.models.compute import COMPUTE
from art_core.models.config import Precision
from art_core.models.head import head_logits

from .attention import use_grouped_attention
from .packing import Batch, Node

__all__ = ["OnTokens", "SplitModel", "run_tree"]

OnTokens = Callable[[Batch, torch.Tensor, torch.Tensor], torch.Tensor | None]
"""``(batch, ask, logprobs)``: ``ask`` (Q,) indexes the batch's trained tokens, ``logprobs`` (Q,) are theirs, float32.
Returns the loss to differentiate, or None when gradients are not wanted."""

KeyValues = list[tuple[torch.Tensor, torch.Tensor]]

_LOGIT_ELEMENTS = 1 << 24  # positions times vocabulary of one chunk of logits: 64 MiB in float32
_PROBE_TOKENS = 8

_log = logging.getLogger(__name__)


class SplitModel:
    """A causal language model seen as a backbone (ids to hidden states) and a head (hidden states to logits).

    The split is checked against the model's own logits once; where a family does something to its logits that is not
    known here, the whole model is run as the backbone. ``shares_prefixes`` is False where keys and values in a cache do
    not reproduce the plain forward pass (recurrent layers, for example).
    """

    def __init__(self, model: torch.nn.Module, *, precision: Precision = "float32") -> None:
        base = model.get_base_model() if hasattr(model, "get_base_model") else model
        self._model: PreTrainedModel = base
        use_grouped_attention(base)
        self._precision = precision
        self.device: torch.device = next(base.parameters()).device
        self.vocab_size: int = base.config.get_text_config().vocab_size
        self._split_head = True
        with torch.no_grad(), self.turn():
            self._split_head = self._head_agrees()
            self.shares_prefixes: bool = self._cache_agrees()

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Let others compute first, then compute in the chosen precision."""
        COMPUTE.give_way()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._precision == "bfloat16"):
            yield

    def hidden(self, ids: torch.Tensor, cache: Cache | None) -> torch.Tensor:
        """(B, S, hidden) for ids (B, S) that follow what ``cache`` holds; the cache is extended."""
        keywords: dict[str, Any] = {"input_ids": ids, "past_key_values": cache, "use_cache": cache is not None}
        if self._split_head:
            output: torch.Tensor = self._model.base_model(**keywords).last_hidden_state
        else:
            output = self._model(**keywords).logits
        return output

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """(N, V) float32 logits of (N, hidden) hidden states."""
        return head_logits(self._model, hidden) if self._split_head else hidden.float()

    def _head_agrees(self) -> bool:
        ids = self._probe_ids()
        try:
            ours = self.logits(self.hidden(ids, None)[0])
        except AttributeError:  # no plain backbone or head under the usual names
            return False
        return _close(ours, self._model(input_ids=ids, use_cache=False).logits[0].float())

    def _cache_agrees(self) -> bool:
        ids = self._probe_ids()
        cut = _PROBE_TOKENS // 2
        try:
            cache = DynamicCache()
            self.hidden(ids[:, :cut], cache)
            rest = self.hidden(ids[:, cut:].repeat(2, 1), _past(_key_values(cache)))
        except Exception as error:  # noqa: BLE001 - any failure of a foreign model means: do not share
            _log.warning("prompts are not shared in training: the model's cache failed with %s", describe(error))
            return False
        agrees = _close(rest[1], self.hidden(ids, None)[0, cut:])
        if not agrees:
            _log.warning("prompts are not shared in training: the model's cache changes its hidden states")
        return agrees

    def _probe_ids(self) -> torch.Tensor:
        return torch.arange(_PROBE_TOKENS, device=self.device)[None] % self.vocab_size


def run_tree(model: SplitModel, root: Node, on_tokens: OnTokens, *, gradients: bool) -> None:
    """Visit every batch of a tree; with ``gradients``, add those of all losses to the parameters' ``grad``.

    ``on_tokens`` is called with the logprobs of trained tokens, ``log_softmax(logits / temperature)`` in float32, in
    pieces: one or more calls a batch. Between passes it gives way to others who want to compute.
    """
    with torch.set_grad_enabled(gradients):
        _Walk(model, on_tokens, gradients).below(root, [])


class _Walk:
    def __init__(self, model: SplitModel, on_tokens: OnTokens, gradients: bool) -> None:
        self._model = model
        self._on_tokens = on_tokens
        self._gradients = gradients
        self._chunk = max(16, _LOGIT_ELEMENTS // model.vocab_size)

    def below(self, node: Node, past: KeyValues) -> None:
        for batch in node.leaves:
            self._leaf(batch, past)
        for child in node.children:
            self._inner(child, past)

    def _leaf(self, batch: Batch, past: KeyValues) -> None:
        with self._model.turn():
            selected, gradient = self._forward(batch, _past(past) if past else None)
            self._backward([selected], [gradient])

    def _inner(self, node: Node, past: KeyValues) -> None:
        assert node.batch is not None
        with self._model.turn():
            cache = _past(past) if past else DynamicCache()
            selected, gradient = self._forward(node.batch, cache)
            outputs = _key_values(cache)
        copies = [(_leaf_copy(keys), _leaf_copy(values)) for keys, values in outputs]
        self.below(node, copies)
        tensors, gradients = [selected], [gradient]
        for pair, copied in zip(outputs, copies, strict=True):
            tensors += pair
            gradients += [copy.grad for copy in copied]
        with self._model.turn():
            self._backward(tensors, gradients)

    def _forward(self, batch: Batch, cache: Cache | None) -> tuple[torch.Tensor, torch.Tensor | None]:
        """(N, hidden) states at the batch's slots, and the gradient of the losses with respect to them."""
        device = self._model.device
        hidden = self._model.hidden(torch.from_numpy(batch.token_ids).to(device), cache)
        rows, columns = torch.from_numpy(batch.slots).to(device).unbind(1)
        selected = hidden[rows, columns]
        gradient = torch.zeros_like(selected) if self._gradients else None
        temperatures = torch.from_numpy(batch.temperatures).to(device)
        slot_of = torch.from_numpy(batch.ask_slot).to(device)
        token_of = torch.from_numpy(batch.ask_token).to(device)
        for low in range(0, len(selected), self._chunk):
            piece = slice(low, low + self._chunk)
            states = selected[piece].detach().requires_grad_(self._gradients)
            scaled = self._model.logits(states) / temperatures[piece, None]
            ask = torch.nonzero((slot_of >= low) & (slot_of < low + self._chunk)).squeeze(1)
            slots = slot_of[ask] - low
            logprobs = scaled[slots, token_of[ask]] - torch.logsumexp(scaled, dim=-1)[slots]
            loss = self._on_tokens(batch, ask, logprobs)
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
    """One layer's keys and values of a prefix, (1, H, P, D), seen by every row of a batch.

    They are kept in float32 whatever the precision, so that the gradients of many micro-batches add up in float32.
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
    return torch.cat([past.to(new.dtype).expand(new.shape[0], -1, -1, -1), new], dim=-2)


def _past(layers: KeyValues) -> Cache:
    return Cache(layers=[_PastLayer(keys, values) for keys, values in layers])


def _key_values(cache: Cache) -> KeyValues:
    return [(layer.keys, layer.values) for layer in cache.layers]


def _leaf_copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().float().requires_grad_(tensor.requires_grad)


def _close(left: torch.Tensor, right: torch.Tensor) -> bool:
    # bfloat16 rounds at 2^-8 and two orders of summation differ by a few such steps
    scale = max(1.0, float(right.abs().max()))
    tolerance = 1e-3 if left.dtype == torch.float32 and right.dtype == torch.float32 else 0.1
    return bool((left.float() - right.float()).abs().max() <= tolerance * scale)
