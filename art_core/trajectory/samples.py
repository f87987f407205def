"""Training samples: the rows that a token graph becomes.

Exactly the sampled tokens are trained, each once, the stop token included; everything else is context.
Letters: L = tokens of a row.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from art_core.errors import InputError, NotTrainable

from .graph import PolicyVersion, TokenGraph, Turn

__all__ = ["TrainingSample", "samples_of"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingSample:
    """One row to train on.

    All arrays have the same length L; position ``i`` speaks of token ``i`` (not of the next one).
    """

    token_ids: NDArray[np.int64]
    """(L,) context and sampled ids."""
    mask: NDArray[np.bool_]
    """(L,) True exactly where the token is to be trained."""
    logprobs: NDArray[np.float32]
    """(L,) behaviour logprobs in nats at temperature ``temperature``; 0 where ``mask`` is False."""
    temperature: float
    version: PolicyVersion
    """The oldest version that sampled a trained token of the row: its staleness is the row's."""
    adapter: str
    rollout_id: str

    def __post_init__(self) -> None:
        lengths = {len(self.token_ids), len(self.mask), len(self.logprobs)}
        if len(lengths) != 1:
            raise InputError(
                f"a sample's token_ids, mask and logprobs have lengths {len(self.token_ids)}, {len(self.mask)} and {len(self.logprobs)}; they must be equal"
            )
        if self.mask[:1].any():
            raise InputError("the first token of a sample cannot be trained: nothing precedes it")

    @property
    def trained_tokens(self) -> int:
        """The number of tokens to be trained."""
        return int(self.mask.sum())


def samples_of(graph: TokenGraph, *, rollout_id: str, left_out: Collection[str] = frozenset()) -> list[TrainingSample]:
    """The rows of a graph: one per leaf path, split where temperature or adapter differ along it.

    A token that lies on several paths is trained in the first row only. A token whose logprob is not finite is context,
    and so is one of a turn whose id is ``left_out``.

    Raises:
        NotTrainable: no turn can be trained; names the first turn and why.
    """
    covered: dict[str, int] = {}
    rows: list[TrainingSample] = []
    for leaf in graph.leaves():
        ids = graph.path(leaf.id)
        marks: dict[tuple[str, float], list[tuple[int, Turn, int, int]]] = {}
        for turn, keep in graph.chain(leaf.id):
            begin = turn.parent_len + len(turn.context_ids)
            first, last = covered.get(turn.id, 0), max(0, min(keep - begin, len(turn.completion_ids)))
            if turn.trainable and last > first and turn.id not in left_out:
                marks.setdefault((turn.adapter, turn.temperature), []).append((begin, turn, first, last))
            covered[turn.id] = max(first, last)
        for (adapter, temperature), pieces in marks.items():
            row = _row(ids, pieces, adapter=adapter, temperature=temperature, rollout_id=rollout_id)
            if row is not None:
                rows.append(row)
    if not rows:
        raise NotTrainable(_complaint(graph, rollout_id, left_out))
    return rows


def _row(ids: list[int], pieces: list[tuple[int, Turn, int, int]], **fields: Any) -> TrainingSample | None:
    mask = np.zeros(len(ids), dtype=np.bool_)
    logprobs = np.zeros(len(ids), dtype=np.float32)
    versions: list[PolicyVersion] = []
    for begin, turn, first, last in pieces:
        assert turn.logprobs is not None
        for offset in range(first, last):
            value = turn.logprobs[offset]
            if math.isfinite(value) and begin + offset > 0:
                mask[begin + offset] = True
                logprobs[begin + offset] = value
        versions.extend(span.version for span in turn.versions)
    if not mask.any():
        return None
    version = min(versions, key=lambda v: v.step, default=PolicyVersion(fields["adapter"], 0))
    return TrainingSample(
        token_ids=np.asarray(ids, dtype=np.int64), mask=mask, logprobs=logprobs, version=version, **fields
    )


def _complaint(graph: TokenGraph, rollout_id: str, left_out: Collection[str]) -> str:
    if not len(graph):
        return f"rollout {rollout_id!r} has no turns"
    turn = next((turn for turn in graph if turn.id not in left_out), None)
    why = (
        f"turn {turn.id!r} has {turn.why_not_trainable or 'no finite logprob'}"
        if turn
        else "all its turns were superseded"
    )
    return f"rollout {rollout_id!r} has nothing to train: {why}"
