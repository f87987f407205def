"""Token ids as text that can be shown: the piece table of a run and token-by-token views of trajectories.

``pieces.json`` holds ``{"pieces": {id: text}, "joined": {"id,id": text}}``: ids that are only part of a character have
no text of their own (null) and are looked up together with their neighbours. A token keeps its place: joined tokens are
shown as one, never split or guessed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from art_core.trajectory.graph import Turn
from art_core.trajectory.trajectory import Trajectory

__all__ = ["Pieces", "TokenView", "TurnView", "make_pieces", "turn_views"]

BROKEN = "\ufffd"
MAX_JOIN = 6
"""More ids than the bytes of any character."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """The text of ids."""

    single: dict[int, str | None] = field(default_factory=dict)
    joined: dict[tuple[int, ...], str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "pieces": {str(token): text for token, text in sorted(self.single.items())},
            "joined": {",".join(map(str, ids)): text for ids, text in sorted(self.joined.items())},
        }

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Pieces:
        joined = {tuple(map(int, ids.split(","))): str(text) for ids, text in (record.get("joined") or {}).items()}
        return cls({int(token): text for token, text in (record.get("pieces") or {}).items()}, joined)

    def split(self, ids: Sequence[int]) -> list[tuple[int, int, str]]:
        """``(start, end, text)`` runs that cover ``ids`` in order; an id without a known text shows as ``⟨id⟩``."""
        runs: list[tuple[int, int, str]] = []
        start = 0
        while start < len(ids):
            text, end = self.single.get(ids[start]), start + 1
            if text is None:
                for stop in range(start + 2, min(len(ids), start + MAX_JOIN) + 1):
                    joined = self.joined.get(tuple(ids[start:stop]))
                    if joined is not None:
                        text, end = joined, stop
                        break
            runs.append((start, end, f"⟨{ids[start]}⟩" if text is None else text))
            start = end
        return runs

    def text(self, ids: Sequence[int]) -> str:
        """All of ``ids`` as text."""
        return "".join(text for _, _, text in self.split(ids))


def make_pieces(decode: Callable[[Sequence[int]], str], sequences: Iterable[Sequence[int]]) -> Pieces:
    """The table for the ids of ``sequences``.

    A piece is what an id adds after itself, so that tokenizers which drop a leading space of a text keep it here.
    """
    pieces = Pieces()
    for ids in sequences:
        for token in ids:
            if token not in pieces.single:
                piece = decode([token, token])[len(decode([token])) :]
                pieces.single[token] = None if BROKEN in piece or not piece else piece
        for start, token in enumerate(ids):
            if pieces.single[token] is None:
                _join(decode, pieces, ids, start)
    return pieces


def _join(decode: Callable[[Sequence[int]], str], pieces: Pieces, ids: Sequence[int], start: int) -> None:
    for stop in range(start + 2, min(len(ids), start + MAX_JOIN) + 1):
        run = tuple(ids[start:stop])
        if run in pieces.joined:
            return
        text = decode(run)
        if text and BROKEN not in text:
            pieces.joined[run] = text
            return


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenView:
    """One shown token (or several that make up one character)."""

    text: str
    ids: tuple[int, ...]
    logprob: float | None
    """Sum over ``ids``, nats; None if unknown or not finite."""
    trainable: bool
    """Whether it was trained, or may be where the fate of its rollout is not known yet."""

    @property
    def bucket(self) -> int:
        """0 (under 10 %) to 4 (90 % and more) by probability; 5 if unknown."""
        if self.logprob is None:
            return 5
        return sum(math.exp(self.logprob) >= bound for bound in (0.1, 0.3, 0.6, 0.9))

    @property
    def title(self) -> str:
        """The tooltip: ids, logprob, probability and whether it may be trained."""
        ids = "+".join(map(str, self.ids))
        if self.logprob is None:
            return f"id {ids} · no logprob · not trained"
        fate = "" if self.trainable else " · not trained"
        return f"id {ids} · logprob {self.logprob:.3f} · {100 * math.exp(self.logprob):.1f} %{fate}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnView:
    """One model call as it is shown."""

    turn: Turn
    context: str
    """What was added before sampling."""
    tokens: list[TokenView]
    cut: int
    """How many tokens beyond the cap are not shown."""
    edited: int
    """How many tokens of the earlier path this turn does not keep; 0 if it extends it."""
    events: list[Any]
    """The tool events that followed."""


def turn_views(trajectory: Trajectory, pieces: Pieces, *, max_tokens: int, max_context: int) -> list[TurnView]:
    """The turns of a rollout.

    A rollout whose stored fate is not ``trained`` has no trained token. Together the turns show at most ``max_tokens``
    sampled tokens, and each the last ``max_context`` characters of its context.
    """
    views, left = [], max_tokens
    fate = trajectory.metadata.get("fate")
    for turn in trajectory.graph:
        shown = turn.completion_ids[:left]
        left -= len(shown)
        edited = 0 if turn.parent is None else trajectory.graph.path_len(turn.parent) - turn.parent_len
        views.append(
            TurnView(
                turn=turn,
                context=_tail(pieces.text(turn.context_ids), max_context),
                tokens=_token_views(turn, shown, pieces, trained=fate in (None, "trained")),
                cut=len(turn.completion_ids) - len(shown),
                edited=edited,
                events=[event for event in trajectory.events if event.turn == turn.id],
            )
        )
    return views


def _tail(text: str, limit: int) -> str:
    return (
        text if len(text) <= limit else f"[the first {len(text) - limit:,} characters are not shown]\n{text[-limit:]}"
    )


def _token_views(turn: Turn, ids: Sequence[int], pieces: Pieces, *, trained: bool) -> list[TokenView]:
    views = []
    for start, end, text in pieces.split(ids):
        values = (turn.logprobs or ())[start:end]
        logprob = math.fsum(values) if values and all(map(math.isfinite, values)) else None
        trainable = trained and turn.trainable and logprob is not None
        views.append(TokenView(text=text, ids=tuple(ids[start:end]), logprob=logprob, trainable=trainable))
    return views
