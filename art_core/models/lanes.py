"""Decoding whose numbers are a function of each row alone, whoever else is being decoded: for deterministic runs.

Floating-point sums depend on the shapes of matrix products. Here every shape is fixed, or a function of the row:

- A prompt is computed alone, in chunks that begin at fixed places. What a chunk left behind is kept and copied, which
  changes no bit.
- Decoding always runs the same number of *lanes*, one row in each; empty ones compute a dummy. A product of fixed shape
  adds up every row in the same order wherever it lies: ``lanes_agree`` checks this on the model itself, and where it
  does not hold there is one lane.
- Attention runs lane by lane, over buffers of the row's own whose size is a function of how much they hold.

Letters: W lanes, T new tokens a lane, H key/value heads, G query heads per key/value head, S filled slots, D head size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AttentionInterface, PreTrainedModel

from .attention import KeyValues
from .decoding import Row
from .head import head_logits
from .prefix_cache import new_buffers
from .sampling import draw

__all__ = ["CHUNK", "LANES", "LaneBatch", "Prompts", "lanes_agree", "use_lane_attention"]

NAME = "art_lanes"
CHUNK = 64
"""Prompt tokens computed at once; a prefix is shared in whole chunks."""
LANES = (16, 8, 4, 2, 1)
"""Numbers of lanes, best first."""
_FIRST_SLOTS = 64
_KEPT_TOKENS = 16384


class Memory:
    """The keys and values of one row, per layer each (1, H, capacity, D).

    The capacity is the smallest of 64, 128, 256 ... that is large enough, so that strides too are a function of the row.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self._capacity = 0
        self.layers: list[KeyValues] = []
        self.length = 0
        """Filled slots."""

    def reserve(self, slots: int) -> None:
        """Make room for ``slots`` in all."""
        wanted = _FIRST_SLOTS
        while wanted < slots:
            wanted *= 2
        if wanted <= self._capacity:
            return
        old, self._capacity = self.layers, wanted
        self.layers = new_buffers(self._model, 1, wanted)
        for pair, old_pair in zip(self.layers, old, strict=False):
            for new, filled in zip(pair, old_pair, strict=True):
                new[:, :, : self.length] = filled[:, :, : self.length]

    def append(self, layers: Sequence[KeyValues]) -> None:
        """Copy computed keys and values, each (1, H, n, D), behind what is there."""
        end = self.length + layers[0][0].shape[2]
        self.reserve(end)
        for pair, more in zip(self.layers, layers, strict=True):
            for buffer, new in zip(pair, more, strict=True):
                buffer[:, :, self.length : end] = new
        self.length = end

    def copy(self) -> Memory:
        """The same in buffers of its own."""
        twin = Memory(self._model)
        twin.append([(keys[:, :, : self.length], values[:, :, : self.length]) for keys, values in self.layers])
        return twin


class LanePlan:
    """What one forward of T tokens in each of W lanes attends to; also the cache object that transformers asks for."""

    def __init__(self, lanes: Sequence[Memory | None], tokens: int) -> None:
        self._lanes = lanes
        self._tokens = tokens
        for memory in lanes:
            if memory is not None:
                memory.reserve(memory.length + tokens)

    def positions(self, device: torch.device) -> torch.Tensor:
        """(W, T) absolute positions of the new tokens."""
        starts = [0 if memory is None else memory.length for memory in self._lanes]
        return torch.tensor(starts, device=device)[:, None] + torch.arange(self._tokens, device=device)

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer: int, *_: Any, **__: Any) -> KeyValues:
        """Write the new (W, H, T, D) keys and values into each lane's own buffers."""
        for lane, memory in enumerate(self._lanes):
            if memory is not None:
                place = slice(memory.length, memory.length + self._tokens)
                memory.layers[layer][0][0, :, place] = keys[lane]
                memory.layers[layer][1][0, :, place] = values[lane]
        return keys, values

    def get_seq_length(self, layer: int = 0) -> int:
        """Part of what transformers asks of a cache; every position is given to it, so it decides nothing."""
        return 0

    def attend(
        self, layer: int, queries: torch.Tensor, *, sliding_window: int | None, softcap: float | None
    ) -> torch.Tensor:
        """(W, H*G, T, D) mixes of scaled (W, H*G, T, D) queries, each lane over its own slots; zeros in empty lanes."""
        mixed = torch.zeros_like(queries)
        for lane, memory in enumerate(self._lanes):
            if memory is not None:
                keys, values = (buffer[0, :, : memory.length + self._tokens] for buffer in memory.layers[layer])
                hidden = self._hidden(memory.length, sliding_window, queries.device)
                mixed[lane] = _attend(
                    queries[lane].clone(memory_format=torch.contiguous_format), keys, values, hidden, softcap
                )
        return mixed

    def advance(self) -> None:
        """Count what was written as filled."""
        for memory in self._lanes:
            if memory is not None:
                memory.length += self._tokens

    def _hidden(self, start: int, sliding_window: int | None, device: torch.device) -> torch.Tensor | None:
        """(T, S) True where a new token must not look at a slot; None where it may look at all."""
        end = start + self._tokens
        if self._tokens == 1 and (sliding_window is None or end <= sliding_window):
            return None
        distance = torch.arange(start, end, device=device)[:, None] - torch.arange(end, device=device)
        hidden = distance < 0
        return hidden if sliding_window is None else hidden | (distance >= sliding_window)


def _attend(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, hidden: torch.Tensor | None, softcap: float | None
) -> torch.Tensor:
    """(H*G, T, D) mixes of one lane: scaled queries (H*G, T, D) over keys and values, each (H, S, D)."""
    heads, tokens, size = queries.shape
    kv_heads, slots = keys.shape[:2]
    scores = queries.view(kv_heads, -1, size) @ keys.transpose(1, 2)  # (H, G*T, S)
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    if hidden is not None:
        scores = scores.view(kv_heads, -1, tokens, slots).masked_fill(hidden, float("-inf")).view(kv_heads, -1, slots)
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(values.dtype)
    return (weights @ values).view(heads, tokens, size)


def use_lane_attention(model: PreTrainedModel) -> None:
    """Make every attention layer of ``model`` use this module's function (needs a ``LanePlan`` in each forward)."""
    AttentionInterface.register(NAME, lane_attention)
    model.set_attn_implementation(NAME)


def lane_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    lane_plan: LanePlan,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Exact attention of (W, H*G, T, D) queries, lane by lane; returns (W, T, H*G, D)."""
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    layer: int = module.layer_idx
    mixed = lane_plan.attend(layer, query * scale, sliding_window=sliding_window, softcap=softcap)
    return mixed.transpose(1, 2).contiguous(), None


def _forward(model: PreTrainedModel, ids: torch.Tensor, lanes: Sequence[Memory | None]) -> torch.Tensor:
    """(W, T, hidden) last hidden states of the new tokens ``ids`` (W, T), which are added to the memories."""
    plan = LanePlan(lanes, ids.shape[1])
    output = model.base_model(
        input_ids=ids,
        position_ids=plan.positions(ids.device),
        past_key_values=plan,
        use_cache=True,
        lane_plan=plan,
    )
    plan.advance()
    hidden: torch.Tensor = output.last_hidden_state
    return hidden


@dataclass(frozen=True, slots=True)
class _Chunk:
    """What computing a chunk left behind."""

    layers: tuple[KeyValues, ...]
    """Keys and values of its own tokens, each (1, H, n, D)."""
    last: torch.Tensor
    """(1, hidden) state of its last token."""


class Prompts:
    """Prompts computed chunk by chunk; chunks are kept until the weights change, the least recently used ones dropped."""

    def __init__(self, model: PreTrainedModel, *, kept_tokens: int = _KEPT_TOKENS) -> None:
        self._model = model
        self._kept_tokens = kept_tokens
        self._chunks: dict[tuple[int, ...], _Chunk] = {}
        self._held = 0
        self.computed_tokens = 0
        """Tokens forwarded since the start, a kept chunk once."""

    def clear(self) -> None:
        """Forget everything: the weights have changed."""
        self._chunks.clear()
        self._held = 0

    def prefill(self, prompt: tuple[int, ...]) -> tuple[Memory, torch.Tensor]:
        """A memory that holds ``prompt``, and the (1, hidden) state of its last token."""
        memory = Memory(self._model)
        last = torch.empty(0)
        for end in [*range(CHUNK, len(prompt), CHUNK), len(prompt)]:
            chunk = self._chunks.pop(prompt[:end], None)
            if chunk is None:
                chunk = self._compute(prompt[memory.length : end], memory)
            else:
                self._held -= end - memory.length
                memory.append(chunk.layers)
            self._keep(prompt[:end], chunk)
            last = chunk.last
        return memory, last

    def _compute(self, ids: tuple[int, ...], memory: Memory) -> _Chunk:
        start = memory.length
        hidden = _forward(self._model, torch.tensor([ids], device=self._model.device), [memory])
        self.computed_tokens += len(ids)
        layers = tuple(
            (keys[:, :, start : memory.length].clone(), values[:, :, start : memory.length].clone())
            for keys, values in memory.layers
        )
        return _Chunk(layers, hidden[:, -1].clone())

    def _keep(self, key: tuple[int, ...], chunk: _Chunk) -> None:
        self._chunks[key] = chunk
        self._held += chunk.layers[0][0].shape[2]
        while self._held > self._kept_tokens and len(self._chunks) > 1:
            oldest = self._chunks.pop(next(iter(self._chunks)))
            self._held -= oldest.layers[0][0].shape[2]


class LaneBatch:
    """Rows decoded side by side, each as if it were alone. Not thread-safe: its engine's thread owns it.

    ``lanes`` None takes as many as the model allows.
    """

    def __init__(self, model: PreTrainedModel, *, lanes: int | None = None) -> None:
        use_lane_attention(model)
        self._model = model
        self.lanes = lanes or next(count for count in LANES if lanes_agree(model, count))
        self._places: list[Row | None] = [None] * self.lanes
        self._memories: list[Memory | None] = [None] * self.lanes
        self._prompts = Prompts(model)
        self._decoded = 0

    @property
    def rows(self) -> list[Row]:
        """Those being decoded."""
        return [row for row in self._places if row is not None]

    @property
    def free(self) -> int:
        """How many rows can be admitted."""
        return self._places.count(None)

    @property
    def computed_tokens(self) -> int:
        """Tokens of rows forwarded since the start, kept chunks once; dummies do not count."""
        return self._decoded + self._prompts.computed_tokens

    @torch.inference_mode()
    def admit(self, rows: Sequence[Row]) -> None:
        """Prefill new rows and draw the first token of each."""
        for row in rows:
            memory, last = self._prompts.prefill(row.prompt)
            lane = self._places.index(None)
            self._places[lane], self._memories[lane] = row, memory
            _draw(row, head_logits(self._model, last))

    @torch.inference_mode()
    def step(self) -> None:
        """Draw one more token for every row; finished rows must have been retired."""
        ids = torch.tensor([[0 if row is None else row.ids[-1]] for row in self._places], device=self._model.device)
        logits = head_logits(self._model, _forward(self._model, ids, self._memories)[:, -1])
        self._decoded += len(self.rows)
        for lane, row in enumerate(self._places):
            if row is not None:
                _draw(row, logits[lane : lane + 1].clone())

    def retire(self) -> list[Row]:
        """Take the finished rows out and return them."""
        return self.remove([row for row in self.rows if row.finish_reason is not None])

    def remove(self, rows: Sequence[Row]) -> list[Row]:
        """Take these rows out, finished or not."""
        for row in rows:
            lane = self._places.index(row)
            self._places[lane] = self._memories[lane] = None
        return list(rows)

    def weights_changed(self) -> None:
        """Forget the kept chunks. Only legal while no row is being decoded."""
        assert not self.rows
        self._prompts.clear()


def _draw(row: Row, logits: torch.Tensor) -> None:
    """Add one token to a row from its (1, V) logits."""
    [token], [logprob] = draw(logits, [row.params], [row.key], [len(row.ids)])
    row.ids.append(token)
    row.logprobs.append(logprob)


@torch.inference_mode()
def lanes_agree(model: PreTrainedModel, lanes: int) -> bool:
    """Whether one and the same row comes out with the same bits in every one of ``lanes`` lanes of a model that uses
    lane attention.

    The order in which a matrix product adds up does not depend on the numbers in it, so what holds for these holds for all.
    """
    if lanes == 1:
        return True
    vocab = model.config.get_text_config().vocab_size
    ids = torch.tensor([[number % vocab for number in range(1, 8)]], device=model.device)
    memory = Memory(model)
    _forward(model, ids, [memory])
    hidden = _forward(model, ids[:, -1:].repeat(lanes, 1), [memory.copy() for _ in range(lanes)])[:, -1]
    logits = head_logits(model, hidden)
    return all(torch.equal(rows, rows[:1].expand_as(rows)) for rows in (hidden, logits))
