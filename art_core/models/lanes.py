"""Decoding whose numbers are a function of each row alone, whoever else is being decoded: for deterministic runs.

Floating-point sums depend on the shapes of matrix products. Here every shape is fixed, or a function of the row:

- A prompt is computed alone, in chunks that begin at fixed places. What a chunk left behind is kept and copied, which
  changes no bit.
- Decoding always runs the same number of *lanes*, one row in each; empty ones compute a dummy. A product of fixed shape
  adds up every row in the same order wherever it lies: ``lanes_agree`` checks this on the model itself, and where it
  does not hold there is one lane.
- Attention runs lane by lane (see ``lane_attention``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from .attention import KeyValues
from .decoding import Row
from .head import head_logits
from .lane_attention import Memory, forward_lanes, use_lane_attention
from .sampling import draw

__all__ = ["CHUNK", "LANES", "LaneBatch", "Prompts", "lanes_agree"]

CHUNK = 64
"""Prompt tokens computed at once; a prefix is shared in whole chunks."""
LANES = (16, 8, 4, 2, 1)
"""Numbers of lanes, best first."""
_KEPT_TOKENS = 16384


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
        hidden = forward_lanes(self._model, torch.tensor([ids], device=self._model.device), [memory])
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
        logits = head_logits(self._model, forward_lanes(self._model, ids, self._memories)[:, -1])
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
        self.reset()

    def reset(self) -> None:
        """Drop every row as it is, and all that was computed for them."""
        self._places = [None] * self.lanes
        self._memories = [None] * self.lanes
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
    forward_lanes(model, ids, [memory])
    hidden = forward_lanes(model, ids[:, -1:].repeat(lanes, 1), [memory.copy() for _ in range(lanes)])[:, -1]
    logits = head_logits(model, hidden)
    return all(torch.equal(rows, rows[:1].expand_as(rows)) for rows in (hidden, logits))
