"""LocalPolicy: an engine and a renderer make a policy; also how a request becomes ids that extend what was seen.

The policy owns temperature, top-p, seed and penalties while it is being trained; what the agent asked for instead is
recorded in ``turn.metadata["overridden"]`` and told once. Tokens drawn beyond a stop text are dropped and counted in
``turn.metadata["tokens_after_stop"]``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from art_core import randomness
from art_core.errors import InputError, LimitReached, ProviderError
from art_core.messages import Message, ToolSpec
from art_core.rendering.renderer import Renderer
from art_core.trajectory.graph import PolicyVersion, Turn
from art_core.trajectory.recorder import Recorder

from .protocol import Completion, Engine, Interrupted, SamplingParams, SessionView

__all__ = ["LocalPolicy", "Prompt", "Wish", "build_prompt", "resolve_params"]

_log = logging.getLogger(__name__)

_CUT_OFF = "cut off while it was being sampled"
_SAMPLING = ("temperature", "top_p", "seed")
_NEVER = (
    "frequency_penalty",
    "logit_bias",
    "min_p",
    "parallel_tool_calls",
    "presence_penalty",
    "reasoning_effort",
    "repetition_penalty",
    "response_format",
    "tool_choice",
    "top_k",
)
_NEUTRAL = (
    "logprobs",
    "metadata",
    "model",
    "n",
    "prompt_cache_key",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "top_logprobs",
    "user",
)
_KNOWN = sorted({"max_tokens", "max_completion_tokens", "stop", *_SAMPLING, *_NEVER, *_NEUTRAL})
_DEFAULTS: Mapping[str, tuple[Any, ...]] = {
    "frequency_penalty": (0,),
    "logit_bias": ({},),
    "min_p": (0,),
    "parallel_tool_calls": (True,),
    "presence_penalty": (0,),
    "reasoning_effort": (),
    "repetition_penalty": (1,),
    "response_format": ({"type": "text"},),
    "tool_choice": ("auto",),
    "top_k": (-1, 0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What an agent's parameters come to."""

    sampling: SamplingParams
    overridden: Mapping[str, Any]
    """What was asked for and not done."""
    seed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A request as ids: ``path(parent)[:parent_len] + context_ids``. The names are those of ``Turn``."""

    ids: tuple[int, ...]
    parent: str | None = None
    parent_len: int = 0
    parent_messages: int = 0
    messages: tuple[Message, ...] = ()
    fork: str | None = None

    def turn_fields(self) -> dict[str, Any]:
        """The arguments of ``Turn`` that this prompt decides."""
        return {
            "parent": self.parent,
            "parent_len": self.parent_len,
            "context_ids": self.ids[self.parent_len :],
            "parent_messages": self.parent_messages,
            "messages": self.messages,
            "fork": self.fork,
        }


def build_prompt(
    renderer: Renderer, recorder: Recorder, messages: Sequence[Message], tools: Sequence[ToolSpec]
) -> Prompt:
    """The ids for a request: a recorded path extended where possible, else rendered anew with the fork's reason.

    Raises:
        InputError: no messages, or the chat template refuses them.
    """
    if not messages:
        raise InputError("a request needs at least one message")
    match = recorder.match(messages, tools)
    fork = match.reason
    if match.turn is not None:
        turn = match.turn
        path = tuple(recorder.graph.path(turn.id))
        new = tuple(messages[match.kept :])
        if match.repeat:
            cut = len(path) - len(turn.completion_ids)
            fork = "the same request again"
            return Prompt(ids=path[:cut], parent=turn.id, parent_len=cut, parent_messages=match.kept, fork=fork)
        added = renderer.extend(path, match.history, new, tools, finish_reason=turn.finish_reason)
        if added is not None:
            ids = (*path, *added)
            return Prompt(ids=ids, parent=turn.id, parent_len=len(path), parent_messages=match.kept, messages=new)
        fork = "the chat template cannot be continued"
    history = [*match.history, *messages[match.kept :]]
    ids = tuple(renderer.prompt(history, tools))
    parent, parent_len = recorder.longest_prefix(ids)
    if parent is not None and recorder.graph[parent].tools != tuple(tools):
        parent, parent_len = None, 0
    return Prompt(ids=ids, parent=parent, parent_len=parent_len, messages=tuple(history), fork=fork)


def resolve_params(params: Mapping[str, Any], base: SamplingParams, *, evaluating: bool) -> Wish:
    """The sampling parameters for a request: ``base``, and what of the request is honoured.

    ``stop`` is, and ``max_tokens`` up to ``base.max_tokens``. Temperature, top-p and seed are honoured while evaluating.

    Raises:
        InputError: an argument nobody knows, or one with an unusable value.
    """
    asked = {name: value for name, value in params.items() if value is not None}
    unknown = sorted(set(asked) - set(_KNOWN))
    if unknown:
        raise InputError(f"unknown chat argument {unknown[0]!r}; known ones: {', '.join(_KNOWN)}")
    if asked.get("n", 1) != 1:
        raise InputError(f"n must be 1: a turn has one reply, got {asked['n']!r}")
    overridden = {name: asked[name] for name in _NEVER if name in asked and asked[name] not in _DEFAULTS[name]}
    changes: dict[str, Any] = {}
    seed = None
    for name in _SAMPLING:
        if name not in asked:
            continue
        if not evaluating:
            if name == "seed" or asked[name] != getattr(base, name):
                overridden[name] = asked[name]
        elif name == "seed":
            seed = _whole("seed", asked[name])
        else:
            changes[name] = _number(name, asked[name])
    limit = asked.get("max_completion_tokens", asked.get("max_tokens"))
    if limit is not None:
        changes["max_tokens"] = min(base.max_tokens, _whole("max_tokens", limit))
        if limit > base.max_tokens:
            overridden["max_tokens"] = limit
    if "stop" in asked:
        changes["stop"] = base.stop + _stops(asked["stop"])
    return Wish(sampling=replace(base, **changes), overridden=overridden, seed=seed)


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{name} must be a number, got {value!r}")
    return float(value)


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{name} must be a whole number, got {value!r}")
    return value


def _stops(value: Any) -> tuple[str, ...]:
    stops = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list | tuple) else ()
    if not all(isinstance(stop, str) and stop for stop in stops) or (not stops and value not in ([], ())):
        raise InputError(f"stop must be a text or a list of texts, none of them empty, got {value!r}")
    return stops


class LocalPolicy:
    """An engine that samples tokens and a renderer that knows the model's chat format, as one policy.

    ``sampling`` is how the policy samples while it is trained; its ``max_tokens`` is also the most an agent can ask
    for. While evaluating it samples at ``evaluation_temperature``, greedily unless told. ``version`` None samples from the
    engine's newest weights. ``max_context`` (prompt plus completion, tokens) lowers the engine's own bound.
    ``one_at_a_time`` refuses model calls of one rollout that overlap: the clock would decide their order, and the order their
    draws.
    """

    def __init__(
        self,
        engine: Engine,
        renderer: Renderer,
        *,
        sampling: SamplingParams = SamplingParams(),  # noqa: B008 a frozen value
        evaluation_temperature: float = 0.0,
        version: PolicyVersion | None = None,
        max_context: int | None = None,
        one_at_a_time: bool = False,
    ) -> None:
        self.engine = engine
        self.renderer = renderer
        self.sampling = replace(sampling, stop_ids=sampling.stop_ids | renderer.stop_ids)
        self.evaluating = replace(self.sampling, temperature=evaluation_temperature)
        self.version = version
        bounds = [bound for bound in (max_context, engine.capabilities.max_context) if bound is not None]
        self.max_context = min(bounds) if bounds else None
        self._told: set[str] = set()
        self._one_at_a_time = one_at_a_time
        self._answering: set[int] = set()

    async def complete(
        self, session: SessionView, messages: Sequence[Message], tools: Sequence[ToolSpec], params: dict[str, Any]
    ) -> Turn:
        """Answer ``messages``.

        Raises:
            InputError: an unknown argument, a conversation the chat template refuses, or a call that overlaps another
                one of its rollout where that is not allowed.
            LimitReached: the prompt leaves no room in the context (``max_context``).
            ProviderError: the engine failed, or gave ids and logprobs that do not belong together.
            Interrupted: the call was cancelled; holds the unfinished turn, which is not trainable.
        """
        if not self._one_at_a_time:
            return await self._complete(session, messages, tools, params)
        if id(session) in self._answering:
            raise InputError(
                "a rollout of a deterministic run asked the model while an earlier call of it was being answered; "
                "let the agent make its model calls one after the other"
            )
        self._answering.add(id(session))
        try:
            return await self._complete(session, messages, tools, params)
        finally:
            self._answering.discard(id(session))

    async def _complete(
        self, session: SessionView, messages: Sequence[Message], tools: Sequence[ToolSpec], params: dict[str, Any]
    ) -> Turn:
        base = self.evaluating if session.evaluating else self.sampling
        wish = resolve_params(params, base, evaluating=session.evaluating)
        self._tell(wish.overridden)
        turn_id = session.recorder.next_id()
        prompt = build_prompt(self.renderer, session.recorder, messages, tools)
        sampling = self._fit(len(prompt.ids), wish.sampling)
        number = int(turn_id.removeprefix("t"))
        key = randomness.fold(*session.rng_parts, *(() if wish.seed is None else ("seed", wish.seed)), number)
        try:
            completion = await self.engine.sample(prompt.ids, sampling, self.version, key)
        except Interrupted as cut:
            raise Interrupted(
                cut.completion, self._turn(turn_id, prompt, wish, sampling, tools, cut.completion)
            ) from None
        return self._turn(turn_id, prompt, wish, sampling, tools, completion)

    def _turn(
        self,
        turn_id: str,
        prompt: Prompt,
        wish: Wish,
        sampling: SamplingParams,
        tools: Sequence[ToolSpec],
        drawn: Completion,
    ) -> Turn:
        _check(drawn)
        completion = self._cut(drawn, sampling.stop)
        reply = self.renderer.parse(completion.ids, tools, call_id_prefix=turn_id, stop=sampling.stop)
        metadata: dict[str, Any] = {"overridden": dict(wish.overridden)} if wish.overridden else {}
        if beyond := len(drawn.ids) - len(completion.ids):
            metadata["tokens_after_stop"] = beyond
        aborted = _CUT_OFF if completion.finish_reason == "abort" and completion.ids else None
        return Turn(
            id=turn_id,
            completion_ids=tuple(completion.ids),
            logprobs=tuple(completion.logprobs),
            temperature=sampling.temperature,
            versions=tuple(completion.spans),
            finish_reason=completion.finish_reason,
            not_trainable=sampling.not_trainable or aborted,
            reply=reply,
            tools=tuple(tools),
            metadata=metadata,
            **prompt.turn_fields(),
        )

    def _tell(self, overridden: Mapping[str, Any]) -> None:
        for name in sorted(set(overridden) - self._told):
            self._told.add(name)
            _log.warning("the agent asked for %s=%r; the policy decides that itself", name, overridden[name])

    def _fit(self, prompt_len: int, sampling: SamplingParams) -> SamplingParams:
        if self.max_context is None:
            return sampling
        room = self.max_context - prompt_len
        if room < 1:
            raise LimitReached(
                "max_context",
                f"the prompt has {prompt_len} tokens, which leaves no room in a context of {self.max_context}",
            )
        return replace(sampling, max_tokens=min(sampling.max_tokens, room))

    def _cut(self, completion: Completion, stop: Sequence[str]) -> Completion:
        """End the completion with the token that completes a stop text, whether or not the engine looked for it."""

        def stopped(count: int) -> bool:
            text = self.renderer.text(completion.ids[:count])
            return any(mark in text for mark in stop)

        if not stop or not stopped(len(completion.ids)):
            return completion
        low, high = 0, len(completion.ids)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if stopped(middle) else (middle, high)
        return replace(
            completion,
            ids=completion.ids[:high],
            logprobs=completion.logprobs[:high],
            finish_reason="stop",
            spans=tuple(span for span in completion.spans if span.start < high),
        )


def _check(completion: Completion) -> None:
    for name in ("ids", "logprobs"):
        if getattr(completion, name, None) is None:
            raise ProviderError(f"the engine's completion has no {name}; training needs them")
    if not completion.ids and completion.finish_reason != "abort":
        raise ProviderError("the engine's completion has no ids; training needs them")
    if len(completion.logprobs) != len(completion.ids):
        raise ProviderError(
            f"the engine's completion has {len(completion.ids)} ids but {len(completion.logprobs)} logprobs; they must be parallel"
        )
