"""Turns whose replies nobody used, because the same was asked again."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from .graph import TokenGraph, Turn

__all__ = ["client_retries", "same_request", "superseded_by"]


def superseded_by(
    graph: TokenGraph, is_again: Callable[[Turn, Turn], bool], *, kept: Collection[str] = frozenset()
) -> set[str]:
    """The ids of the turns that another one was made in the place of (``is_again(turn, other)``), without those in ``kept`` and those
    that are extended by a turn that is not superseded."""
    found: set[str] = set()
    used = set(kept)
    for turn in reversed(graph.turns):
        others = (other for other in graph if other.id != turn.id)
        if turn.id not in used and any(is_again(turn, other) for other in others):
            found.add(turn.id)
        elif turn.parent is not None and _extends(graph, turn):
            used.add(turn.parent)
    return found


def client_retries(graph: TokenGraph) -> set[str]:
    """The ids of the turns whose client had given up waiting and sent the request again.

    The evidence is that of OpenAI's SDKs, which count how often they sent a request: the other turn has the same request and a higher
    count, and it began before this one ended. A request that is sent again after it failed leaves one turn only. Two requests that
    are the same on purpose both have the count 0.
    """

    def is_again(turn: Turn, other: Turn) -> bool:
        return (
            _sent_again(other) > _sent_again(turn)
            and turn.started_s <= other.started_s < turn.ended_s
            and same_request(graph, turn, other)
        )

    return superseded_by(graph, is_again)


def same_request(graph: TokenGraph, one: Turn, two: Turn) -> bool:
    """Whether two turns were asked with the same messages and tools."""
    return one.tools == two.tools and graph.history(one.id)[:-1] == graph.history(two.id)[:-1]


def _sent_again(turn: Turn) -> int:
    call: Any = turn.metadata.get("call") or {}
    return int(call.get("client_retry", 0))


def _extends(graph: TokenGraph, turn: Turn) -> bool:
    """Whether the turn keeps something of what its parent sampled."""
    assert turn.parent is not None
    return turn.parent_len > graph.path_len(turn.parent) - len(graph[turn.parent].completion_ids)
