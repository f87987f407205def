"""The token graph: every model call of a rollout as a node that stores only what it added.

The *path* of a turn is the ids the model had seen when the turn ended::

    path(turn) = path(parent)[:parent_len] + context_ids + completion_ids

Storage is linear in turns whatever the length of the history. Messages are annotations: they never decide which
tokens are trained.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from art_core.errors import InputError
from art_core.messages import Message, ToolSpec

__all__ = ["DEFAULT_ADAPTER", "FinishReason", "PolicyVersion", "Span", "TokenGraph", "Turn"]

FinishReason = Literal["stop", "length", "abort"]
DEFAULT_ADAPTER = "default"
"""The adapter of a run that trains only one, unless it is given a name."""


@dataclass(frozen=True, slots=True, order=True)
class PolicyVersion:
    """Which weights: an adapter's name and the number of optimizer steps it has taken."""

    adapter: str
    step: int

    def __str__(self) -> str:
        return f"{self.adapter}@{self.step}"

    @classmethod
    def parse(cls, text: str) -> PolicyVersion:
        """Read ``"name@12"``.

        Raises:
            InputError: it has another form.
        """
        adapter, _, step = text.rpartition("@")
        if not adapter or not step.isdecimal():
            raise InputError(f"policy version {text!r} is not of the form name@step, such as default@12")
        return cls(adapter, int(step))


@dataclass(frozen=True, slots=True)
class Span:
    """From token ``start`` of a completion on, ``version`` sampled."""

    start: int
    version: PolicyVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One model call.

    >>> t = Turn(id="t0", context_ids=(5, 6), completion_ids=(7, 2), logprobs=(-0.5, -0.1), reply=Message(role="assistant"))
    >>> t.trainable
    True
    """

    id: str
    parent: str | None = None
    """The turn whose path this one starts with; None for a root."""
    parent_len: int = 0
    """How many ids of the parent's path are kept; it may cut anywhere."""
    context_ids: tuple[int, ...]
    """Ids added before sampling: rendered messages, bridges, the generation prompt. Never trained."""
    completion_ids: tuple[int, ...]
    """The sampled ids, stop token included when one was sampled."""
    logprobs: tuple[float, ...] | None
    """Behaviour logprobs of ``completion_ids`` in nats: log_softmax(logits / temperature) over the whole vocabulary."""
    temperature: float = 1.0
    versions: tuple[Span, ...] = ()
    finish_reason: FinishReason = "stop"
    not_trainable: str | None = None
    """Why these tokens must not be trained (greedy, truncated distribution, no ids ...); None if they may be."""
    parent_messages: int = 0
    """How many messages of the parent's history (its reply included) this request kept."""
    messages: tuple[Message, ...] = ()
    """The request's messages beyond those."""
    reply: Message
    tools: tuple[ToolSpec, ...] = ()
    """What was offered. Equal to the parent's unless the turn is a root."""
    fork: str | None = None
    """Why the turn does not extend the whole path of an earlier one although there were earlier ones; None if it does."""
    started_s: float = 0.0
    """Seconds since the rollout began."""
    ended_s: float = 0.0
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.logprobs is not None and len(self.logprobs) != len(self.completion_ids):
            raise InputError(
                f"turn {self.id!r} has {len(self.completion_ids)} completion ids but {len(self.logprobs)} logprobs; they must be parallel"
            )
        if self.parent_len < 0 or (self.parent is None and self.parent_len):
            raise InputError(f"turn {self.id!r} keeps {self.parent_len} ids of parent {self.parent!r}")
        if self.finish_reason not in get_args(FinishReason):
            raise InputError(f"finish reason {self.finish_reason!r} is not one of {', '.join(get_args(FinishReason))}")
        if self.reply.role != "assistant":
            raise InputError(f"the reply of turn {self.id!r} has role {self.reply.role!r}, not assistant")
        if any(not 0 <= span.start <= len(self.completion_ids) for span in self.versions):
            raise InputError(
                f"turn {self.id!r} has a version span outside its {len(self.completion_ids)} completion ids"
            )

    @property
    def adapter(self) -> str:
        """The adapter that answered."""
        return self.versions[0].version.adapter if self.versions else DEFAULT_ADAPTER

    @property
    def trainable(self) -> bool:
        """Whether the sampled tokens may be trained."""
        return self.not_trainable is None and self.logprobs is not None and bool(self.completion_ids)

    @property
    def why_not_trainable(self) -> str | None:
        """The reason for ``trainable`` being False."""
        if self.not_trainable is not None:
            return self.not_trainable
        if not self.completion_ids:
            return "no token ids"
        return "no logprobs" if self.logprobs is None else None

    @property
    def bad_logprobs(self) -> int:
        """How many logprobs are not finite; such a token is kept and never trained."""
        return sum(not math.isfinite(value) for value in self.logprobs or ())


class TokenGraph:
    """The turns of one rollout in the order they ended, and the paths they make."""

    def __init__(self, turns: Iterable[Turn] = ()) -> None:
        self._turns: dict[str, Turn] = {}
        self._lengths: dict[str, int] = {}
        for turn in turns:
            self.add(turn)

    def add(self, turn: Turn) -> None:
        """Append a turn.

        Raises:
            InputError: the id is taken, the parent is unknown, or more of its path is kept than it has.
        """
        if turn.id in self._turns:
            raise InputError(f"turn id {turn.id!r} occurs twice in one trajectory")
        if turn.parent is not None:
            if turn.parent not in self._turns:
                raise InputError(f"turn {turn.id!r} names an unknown parent {turn.parent!r}")
            if turn.parent_len > self._lengths[turn.parent]:
                raise InputError(
                    f"turn {turn.id!r} keeps {turn.parent_len} ids of {turn.parent!r}, whose path has {self._lengths[turn.parent]}"
                )
        self._turns[turn.id] = turn
        self._lengths[turn.id] = turn.parent_len + len(turn.context_ids) + len(turn.completion_ids)

    def __iter__(self) -> Iterator[Turn]:
        return iter(self._turns.values())

    def __len__(self) -> int:
        return len(self._turns)

    def __getitem__(self, turn_id: str) -> Turn:
        return self._turns[turn_id]

    @property
    def turns(self) -> list[Turn]:
        return list(self._turns.values())

    def path_len(self, turn_id: str) -> int:
        """The number of ids in the turn's path."""
        return self._lengths[turn_id]

    def chain(self, turn_id: str) -> list[tuple[Turn, int]]:
        """Root first: each turn on the way to ``turn_id`` with how many ids of *its own path* are part of the target path."""
        links: list[tuple[Turn, int]] = []
        current: str | None = turn_id
        keep = self._lengths[turn_id]
        while current is not None and keep > 0:
            turn = self._turns[current]
            links.append((turn, keep))
            keep = min(keep, turn.parent_len)
            current = turn.parent
        return links[::-1]

    def path(self, turn_id: str) -> list[int]:
        """The ids of the turn's path."""
        ids: list[int] = []
        for turn, keep in self.chain(turn_id):
            del ids[turn.parent_len :]
            ids.extend(turn.context_ids)
            ids.extend(turn.completion_ids)
            del ids[keep:]
        return ids

    def history(self, turn_id: str) -> list[Message]:
        """The messages of the conversation that ended with this turn, its reply included."""
        chain: list[Turn] = []
        current: str | None = turn_id
        while current is not None:
            turn = self._turns[current]
            chain.append(turn)
            current = turn.parent if turn.parent_messages else None
        messages: list[Message] = []
        for turn in reversed(chain):
            del messages[turn.parent_messages :]
            messages.extend(turn.messages)
            messages.append(turn.reply)
        return messages

    def leaves(self) -> list[Turn]:
        """The turns whose whole path is not the beginning of another turn's path through parenthood: one row each."""
        extended = {t.parent for t in self if t.parent is not None and t.parent_len == self._lengths[t.parent]}
        return [turn for turn in self if turn.id not in extended]
