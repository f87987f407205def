"""Session: the one door through which an agent talks to the policy, with limits enforced and every turn recorded.

A session may be used from any task, thread or other loop than its own (see ``crossing``). When its rollout is over every
further call raises ``LimitReached`` with the rollout's stop reason.
"""

from __future__ import annotations

import asyncio
import dataclasses
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from art_core.errors import ArtError, InputError, LimitReached, ProviderError, describe
from art_core.inference.original import OriginalPolicy
from art_core.inference.protocol import Interrupted, Policy
from art_core.messages import Message, ToolSpec
from art_core.scenario import Scenario
from art_core.trajectory.graph import DEFAULT_ADAPTER, Turn
from art_core.trajectory.recorder import Recorder
from art_core.trajectory.trajectory import ModelCall, ToolEvent, Trajectory

from .crossing import Crossing
from .current import no_capture
from .limits import Limits
from .selection import Selection

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI
    from openai.types.chat import ChatCompletion

__all__ = ["Session"]


class Session:
    """The agent's view of one rollout.

    ``chat`` speaks OpenAI shapes, ``turn`` the product's own; ``openai`` and ``openai_sync`` are clients for code that
    brings its own calls. All of them record into ``trajectory``.
    """

    def __init__(
        self,
        policy: Policy,
        scenario: Scenario,
        *,
        rollout_id: str,
        group_id: str = "",
        limits: Limits | None = None,
        rng_parts: tuple[Any, ...] = (),
        evaluating: bool = False,
    ) -> None:
        self.policy = policy
        self.scenario = scenario
        self.rollout_id = rollout_id
        self.limits = limits or Limits()
        self.rng_parts = rng_parts or (rollout_id,)
        self.evaluating = evaluating
        self.recorder = Recorder()
        self.trajectory = Trajectory(
            scenario=scenario, rollout_id=rollout_id, group_id=group_id, graph=self.recorder.graph
        )
        self.limit: LimitReached | None = None
        """The first limit the rollout ran into."""
        self.finished = False
        """Set by the runner when the trajectory is complete; nothing is added to it afterwards."""
        self.selection = Selection()
        """Which calls of the agent's models are trained; an agent may set it before its first call."""
        self.attached: dict[str, Any] = {}
        """What integrations keep with the rollout, each under its own name."""
        self.crossing = Crossing(
            rollout_id, close_seconds=self.limits.close_seconds, on_blocking=lambda: self.count("blocking_calls")
        )
        """How calls come from other threads and loops, and what ends them; those that block are ``metrics["blocking_calls"]``."""
        self._started = time.monotonic()
        self._lock = threading.Lock()
        self._in_flight = 0
        self._tool_calls = 0
        self._tokens = 0

    @property
    def tool_events(self) -> list[ToolEvent]:
        """The tool calls recorded so far."""
        return self.trajectory.events

    @property
    def tokens_left(self) -> int:
        """How many tokens may still be sampled."""
        return max(0, self.limits.tokens - self._tokens)

    def elapsed(self) -> float:
        """Seconds since the rollout began."""
        return time.monotonic() - self._started

    async def turn(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        *,
        about: Mapping[str, Any] | None = None,
        **params: Any,
    ) -> Turn:
        """One model call: the policy answers ``messages``, the turn is recorded and returned.

        ``about``, who calls, becomes ``metadata["call"]`` of the turn; its ``adapter`` is the one that answers. Turns that run side
        by side are each capped by the tokens left when they began.

        Raises:
            LimitReached: a limit is used up, or the rollout is over.
            InputError: the messages, or an argument nobody knows.
            ProviderError: the policy failed.
        """
        if not messages:
            raise InputError("messages is empty; a model call needs at least one message")
        return await self.crossing.on_loop(lambda: self._turn(list(messages), tuple(tools), params, dict(about or {})))

    async def _turn(
        self, messages: list[Message], tools: tuple[ToolSpec, ...], params: dict[str, Any], about: dict[str, Any]
    ) -> Turn:
        with self._lock:
            self._check_turn()
            self._in_flight += 1
        started = self.elapsed()
        if (adapter := about.pop("adapter", DEFAULT_ADAPTER)) != DEFAULT_ADAPTER:
            params = {**params, "adapter": adapter}
        try:
            with no_capture():  # a policy's own calls are not those of the agent
                turn = await self.policy.complete(self, messages, tools, self._capped(params))
            if not isinstance(turn, Turn):
                raise ProviderError(f"the policy returned {type(turn).__name__}, not a Turn")
            turn = self._record(turn, started, about)
            self.crossing.check_open()
            return turn
        except Interrupted as cut:
            if cut.turn is not None:
                self._record(cut.turn, started, about)
            raise asyncio.CancelledError from None
        except LimitReached as limit:
            self.limit = self.limit or limit
            raise
        except ArtError as error:
            if isinstance(error, ProviderError):
                self.count("provider_errors")
            raise
        except Exception as error:
            self.count("provider_errors")
            raise ProviderError(describe(error)) from error
        finally:
            with self._lock:
                self._in_flight -= 1

    def _record(self, turn: Turn, started: float, about: Mapping[str, Any]) -> Turn:
        """Add what was sampled, also where nobody waits for it any more; after the end it can only be counted."""
        metadata = {**turn.metadata, "call": dict(about)} if about else turn.metadata
        turn = dataclasses.replace(turn, started_s=started, ended_s=self.elapsed(), metadata=metadata)
        if self.finished:
            self.count("late_results")
            return turn
        with self._lock:
            self.recorder.add(turn)
            self._tokens += len(turn.completion_ids) or (turn.metadata.get("usage") or {}).get("output_tokens") or 0
        if beyond := turn.metadata.get("tokens_after_stop"):
            self.count("tokens_after_stop", beyond)
        return turn

    async def chat(
        self, messages: Sequence[Any], tools: Sequence[Any] | None = None, tool_choice: Any = None, **params: Any
    ) -> ChatCompletion:
        """One model call in OpenAI shapes.

        Messages and tools are wire dicts, ``Message``/``ToolSpec`` or the SDK's own objects. The completion's choice
        carries ``prompt_token_ids``, ``token_ids``, ``version`` and ``turn_id``.

        Raises:
            LimitReached: a limit is used up, or the rollout is over.
            InputError: the messages, the tools, or an argument nobody knows.
            ProviderError: the policy failed.
        """
        from . import wire

        request = wire.request(
            {"messages": messages, "tools": tools, "tool_choice": tool_choice, **params}, streaming=False
        )
        return wire.chat_completion(await wire.complete(self, request))

    @cached_property
    def openai(self) -> AsyncOpenAI:
        """An async OpenAI client whose chat completions are this rollout's turns."""
        from .transports import async_client

        return async_client(self)

    @cached_property
    def openai_sync(self) -> OpenAI:
        """A sync OpenAI client; a call in the event loop's own thread makes all its rollouts wait."""
        from .transports import sync_client

        return sync_client(self)

    @property
    def base_url(self) -> str:
        """Where other processes on this machine find an OpenAI-compatible service whose chat completions are this rollout's turns,
        while it runs; the key that it asks for is in ``env``."""
        from .endpoint import endpoint

        return endpoint().open(self).base_url

    @property
    def env(self) -> dict[str, str]:
        """Environment variables that make OpenAI clients of a child process use ``base_url``."""
        from .endpoint import endpoint

        line = endpoint().open(self)
        return {"OPENAI_BASE_URL": line.base_url, "OPENAI_API_KEY": line.key}

    def check_tool_call(self) -> None:
        """Reserve one tool call; to be called before it is made.

        Raises:
            LimitReached: none is left, or the rollout is over.
        """
        with self._lock:
            self.crossing.check_open()
            used = max(self._tool_calls, len(self.trajectory.events))
            if used >= self.limits.tool_calls:
                self._reach("max_tool_calls", f"the limit of {self.limits.tool_calls} tool calls is reached")
            self._tool_calls = used + 1

    def record_tool(self, event: ToolEvent) -> None:
        """Record a tool call that was made; it counts against the limit whether or not it was reserved.

        One that comes when the trajectory is already finished is ignored and counted in ``metrics["late_results"]``.
        """
        if self.finished:
            self.count("late_results")
        else:
            self.trajectory.events.append(event)

    def adapter_for(self, about: Mapping[str, Any]) -> str | None:
        """The adapter that answers a call of one of the agent's own models, from what is known about the call; None if the
        model itself is to answer and the call to be recorded with ``record_model_call``.

        Raises:
            LimitReached: the agent runs with its own models, and those have used up the turns or the tokens of the rollout.
        """
        if not isinstance(self.policy, OriginalPolicy):
            return self.selection.adapter_for(about)
        self._check_room(len(calls := self.trajectory.model_calls), sum(call.output_tokens or 0 for call in calls))
        return None

    def record_model_call(self, call: ModelCall) -> None:
        """Record what a model that is not the policy was asked and said; counted in ``metrics["environment_model_calls"]``.

        One that comes when the trajectory is already finished is ignored and counted in ``metrics["late_results"]``.
        """
        if self.finished:
            self.count("late_results")
            return
        self.trajectory.model_calls.append(call)
        self.count("environment_model_calls")

    def count(self, name: str, by: float = 1) -> None:
        """Add ``by`` to ``trajectory.metrics[name]``; safe from any thread."""
        with self._lock:
            metrics = self.trajectory.metrics
            metrics[name] = metrics.get(name, 0) + by

    def _capped(self, params: Mapping[str, Any]) -> dict[str, Any]:
        capped = {name: value for name, value in params.items() if value is not None}
        asked = [capped.pop(name) for name in ("max_completion_tokens", "max_tokens") if name in capped]
        if asked and (not isinstance(asked[0], int) or isinstance(asked[0], bool) or asked[0] < 1):
            raise InputError(f"max_tokens must be a whole number of at least 1, got {asked[0]!r}")
        own = getattr(getattr(self.policy, "sampling", None), "max_tokens", None)
        wish = asked[0] if asked else own
        if asked or wish is None or wish > self.tokens_left:
            capped["max_tokens"] = self.tokens_left if wish is None else min(wish, self.tokens_left)
        return capped

    def _check_turn(self) -> None:
        self._check_room(len(self.recorder.graph) + self._in_flight, self._tokens)

    def _check_room(self, turns: int, tokens: int) -> None:
        self.crossing.check_open()
        if turns >= self.limits.turns:
            self._reach("max_turns", f"the limit of {self.limits.turns} turns is reached")
        if tokens >= self.limits.tokens:
            self._reach("max_tokens", f"the limit of {self.limits.tokens} sampled tokens is reached")
        if self.elapsed() >= self.limits.seconds:
            self._reach("timeout", f"the limit of {self.limits.seconds:g} seconds is reached")

    def _reach(self, stop_reason: str, message: str) -> None:
        reached = LimitReached(stop_reason, message)
        if self.limit is None:
            self.limit = reached
        raise reached
