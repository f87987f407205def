"""The recorder of one rollout: owns its token graph and finds which recorded turn a new request continues.

Histories are compared by role, content, tool-call ids and canonical arguments; an echoed reply may lack its reasoning
or its malformed calls. Other tools, or tools in another order, are another conversation.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from art_core.messages import Content, Message, ToolSpec, canonical_json, content_text

from .graph import TokenGraph, Turn

__all__ = ["Match", "Recorder"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """What a request has in common with what was recorded."""

    turn: Turn | None = None
    """The turn that the request continues, or whose request it repeats; None if there is none."""
    kept: int = 0
    """How many of the request's messages are that turn's history (its reply included, unless it is a repeat)."""
    repeat: bool = False
    """The request equals that turn's own request."""
    history: tuple[Message, ...] = ()
    """Those messages as recorded: with reasoning and malformed calls."""
    reason: str | None = None
    """Why there is no such turn although turns were recorded."""


class Recorder:
    """Thread-safe. Turns are added as they end, in any order of starting."""

    def __init__(self) -> None:
        self.graph = TokenGraph()
        self._lock = threading.Lock()
        self._next = 0
        self._ended: dict[bytes, list[str]] = {}
        self._asked: dict[bytes, list[str]] = {}
        self._begun: set[bytes] = set()
        self._untooled: set[bytes] = set()

    def next_id(self) -> str:
        """A fresh turn id: ``t0``, ``t1`` ..."""
        with self._lock:
            turn_id = f"t{self._next}"
            self._next += 1
            return turn_id

    def add(self, turn: Turn) -> None:
        """Append a turn to the graph.

        Raises:
            InputError: the graph refuses it.
        """
        with self._lock:
            self.graph.add(turn)
            history = self.graph.history(turn.id)
            keys = _keys(history, turn.tools)
            self._ended.setdefault(keys[-1], []).append(turn.id)
            self._asked.setdefault(keys[-2], []).append(turn.id)
            self._begun.update(keys[1:])
            self._untooled.add(_keys(history[:1], ())[-1])

    def match(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Match:
        """The recorded turn with the longest history that ``messages`` begin with, or whose request they repeat.

        Among equals the latest is taken.
        """
        keys = _keys(messages, tools)
        with self._lock:
            for kept in range(len(messages), 0, -1):
                for turn_id in reversed(self._ended.get(keys[kept], ())):
                    recorded = self.graph.history(turn_id)
                    if _reasoning_agrees(recorded, messages):
                        return Match(turn=self.graph[turn_id], kept=kept, history=tuple(recorded))
                if kept == len(messages):
                    for turn_id in reversed(self._asked.get(keys[kept], ())):
                        recorded = self.graph.history(turn_id)[:-1]
                        if _reasoning_agrees(recorded, messages):
                            return Match(turn=self.graph[turn_id], kept=kept, repeat=True, history=tuple(recorded))
            return Match(reason=self._why(keys, messages))

    def longest_prefix(self, ids: Sequence[int]) -> tuple[str | None, int]:
        """The turn whose path shares the longest beginning with ``ids``, and its length; (None, 0) if none shares any."""
        best: tuple[str | None, int] = (None, 0)
        with self._lock:
            for turn in self.graph:
                shared = _common(self.graph.path(turn.id), ids)
                if shared > best[1]:
                    best = (turn.id, shared)
        return best

    def _why(self, keys: Sequence[bytes], messages: Sequence[Message]) -> str | None:
        if not len(self.graph):
            return None
        first = next((i for i, message in enumerate(messages) if message.role not in ("system", "developer")), 0)
        if keys[min(first + 1, len(keys) - 1)] in self._begun:
            return "the history was edited"
        if messages and keys[1] not in self._begun and _keys(messages[:1], ())[-1] in self._untooled:
            return "other tools are offered"
        return "a new conversation"


def _keys(messages: Iterable[Message], tools: Sequence[ToolSpec]) -> list[bytes]:
    """Chained digests: entry k stands for the tools and the first k messages."""
    keys = [_digest(b"", canonical_json([tool.to_wire() for tool in tools]))]
    for message in messages:
        calls = [[call.id, call.name, call.parsed()] for call in message.tool_calls]
        name = None if message.role == "assistant" else message.name
        parts = [message.role, _plain(message.content), calls, message.tool_call_id, name]
        keys.append(_digest(keys[-1], canonical_json(parts)))
    return keys


def _plain(content: Content) -> object:
    """Content to compare: text where it is nothing but text."""
    if isinstance(content, tuple) and any(part.get("type") != "text" for part in content):
        return [dict(part) for part in content]
    return content_text(content)


def _digest(before: bytes, text: str) -> bytes:
    return hashlib.blake2b(before + text.encode("utf-8", errors="surrogatepass"), digest_size=16).digest()


def _reasoning_agrees(recorded: Sequence[Message], messages: Sequence[Message]) -> bool:
    pairs = zip(recorded, messages, strict=False)
    return all(echo.reasoning is None or echo.reasoning == own.reasoning for own, echo in pairs)


def _common(one: Sequence[int], two: Sequence[int]) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
