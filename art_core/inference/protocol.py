"""The two seams: an Engine works on tokens, a Policy works on chat. Everything else sees only these."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from art_core.errors import InputError
from art_core.messages import Message, ToolSpec
from art_core.trajectory.graph import FinishReason, PolicyVersion, Span, Turn

__all__ = ["Capabilities", "Completion", "Engine", "Interrupted", "Policy", "SamplingParams", "SessionView"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How a completion is drawn."""

    temperature: float = 1.0
    """0 means greedy: the most likely token, not trainable."""
    max_tokens: int = 256
    top_p: float = 1.0
    """Below 1 the distribution is truncated: not trainable."""
    stop_ids: frozenset[int] = frozenset()
    """Ids that end the completion; the one sampled is part of it."""
    stop: tuple[str, ...] = ()
    """Texts that end the completion (checked by the policy's renderer or the engine, where it can decode)."""

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise InputError(f"temperature must be 0 or more, got {self.temperature!r}")
        if self.max_tokens < 1:
            raise InputError(f"max_tokens must be at least 1, got {self.max_tokens!r}")
        if not 0 < self.top_p <= 1:
            raise InputError(f"top_p must be above 0 and at most 1, got {self.top_p!r}")

    @property
    def not_trainable(self) -> str | None:
        """Why what is drawn this way must not be trained; None if it may be."""
        if self.temperature == 0:
            return "sampled greedily (temperature 0)"
        return f"sampled from a truncated distribution (top_p {self.top_p:g})" if self.top_p < 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What an engine drew."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """log_softmax(logits / T) of each id over the whole vocabulary, nats; at T = 0 taken at T = 1."""
    finish_reason: FinishReason
    spans: tuple[Span, ...]


class Interrupted(asyncio.CancelledError):
    """A call was cancelled while it was being sampled: what was drawn until then is kept.

    It stays between engine, policy and session; agents see a plain ``CancelledError``.
    """

    def __init__(self, completion: Completion, turn: Turn | None = None) -> None:
        super().__init__(f"cancelled after {len(completion.ids)} tokens")
        self.completion = completion
        """Its finish reason is ``abort``."""
        self.turn = turn
        """The same as a turn; set by the policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What an engine can do beyond sampling."""

    guided: bool = False
    sleep: bool = False
    max_context: int | None = None
    """Longest prompt plus completion in tokens; None if unbounded."""


@runtime_checkable
class Engine(Protocol):
    """Samples tokens from versioned weights. Safe to call from many tasks at once; batching is its own business."""

    @property
    def capabilities(self) -> Capabilities: ...

    async def sample(
        self, prompt_ids: Sequence[int], params: SamplingParams, version: PolicyVersion | None, rng_key: int
    ) -> Completion:
        """Draw one completion.

        The draw is a function of (weights, prompt_ids, params, rng_key) up to floating-point effects of batching.
        ``version`` None means the newest loaded one; an unknown version raises ``ProviderError``. Cancelled after the
        first token, it raises ``Interrupted`` with the tokens drawn so far, where the engine knows them.
        """
        ...

    async def load(self, version: PolicyVersion, path: Path | None) -> None:
        """Serve ``version`` from the PEFT adapter directory ``path`` (None: the base weights) from the next request on.

        Returns once the new version is in effect. Requests in flight finish with the version they began with.
        """
        ...

    async def drain(self) -> None:
        """Return when no request is in flight."""
        ...

    async def close(self) -> None:
        """Free everything; later calls raise ``ProviderError``."""
        ...


class SessionView(Protocol):
    """What a policy may see of the session it answers in."""

    @property
    def recorder(self) -> Any:
        """The session's ``trajectory.recorder.Recorder``."""
        ...

    @property
    def rng_parts(self) -> tuple[Any, ...]:
        """(seed, step, scenario id, sibling): the policy appends the turn number."""
        ...

    @property
    def evaluating(self) -> bool:
        """Whether the agent's own sampling parameters are honoured and greedy decoding is the default."""
        ...


@runtime_checkable
class Policy(Protocol):
    """Answers chats. Every answer is a Turn that the session records."""

    async def complete(
        self, session: SessionView, messages: Sequence[Message], tools: Sequence[ToolSpec], params: dict[str, Any]
    ) -> Turn:
        """Answer ``messages``.

        ``params`` are the agent's wish (``max_tokens``, ``stop``, ``temperature`` ...). ``max_tokens`` and ``stop`` are
        honoured; while training, others are recorded in ``turn.metadata["overridden"]``.

        Raises:
            InputError: an argument nobody knows, or a prompt longer than the context.
            ProviderError: the engine failed.
            Interrupted: the call was cancelled; holds the unfinished turn.
        """
        ...
