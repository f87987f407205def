"""ScriptedPolicy: a policy that says what it is told, with real token ids and made-up but fixed logprobs.

Prompts, bridges and parsing are those of a real policy, over a byte tokenizer in pure Python: everything but training
can be tested without a model.
"""

from __future__ import annotations

import inspect
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from art_core import randomness
from art_core.errors import InputError
from art_core.messages import Message, ToolCall, ToolSpec
from art_core.rendering.parsing import hermes_text
from art_core.rendering.renderer import Renderer
from art_core.rendering.tokenizer import BytesTokenizer
from art_core.trajectory.graph import FinishReason, PolicyVersion, Span, Turn

from .local_policy import build_prompt, resolve_params
from .protocol import SamplingParams, SessionView

__all__ = ["Reply", "ScriptedPolicy"]

Reply = str | Message | Mapping[str, Any] | Sequence[Any] | BaseException | type[BaseException]
"""A text (it may hold tool-call markup, well-formed or not), a message, a wire dict (``role`` may be missing), a list of
calls (``(name, arguments)`` pairs or ``ToolCall``), or an exception to raise."""

_UNBOUNDED = 1 << 30


class ScriptedPolicy:
    """Answers from a list, one entry per call over all rollouts, or from a callable ``(messages, tools) -> reply``.

    A callable may be async. Of a rollout with several adapters it answers as each of them. Logprobs are a function of the session's random key and the position.

    >>> ScriptedPolicy(["It is noon."]).remaining
    1
    """

    def __init__(
        self,
        replies: Sequence[Reply] | Callable[[Sequence[Message], Sequence[ToolSpec]], Any],
        *,
        version: PolicyVersion = PolicyVersion("default", 0),  # noqa: B008 a frozen value
    ) -> None:
        if isinstance(replies, str | bytes) or not (callable(replies) or isinstance(replies, Sequence)):
            raise InputError(f"replies must be a list or a callable (messages, tools), got {replies!r}")
        self.renderer = Renderer(BytesTokenizer())
        self.version = version
        self._replies = replies if callable(replies) else list(replies)
        self._used = 0
        self._lock = threading.Lock()

    @property
    def remaining(self) -> int | None:
        """How many replies of the list are left; None for a callable."""
        return None if callable(self._replies) else len(self._replies) - self._used

    async def complete(
        self, session: SessionView, messages: Sequence[Message], tools: Sequence[ToolSpec], params: dict[str, Any]
    ) -> Turn:
        """Answer with the next reply.

        Raises:
            InputError: the list is used up, the reply has no known form, or an argument nobody knows.
        """
        temperature = 0.0 if session.evaluating else 1.0
        base = SamplingParams(temperature=temperature, max_tokens=_UNBOUNDED, stop_ids=self.renderer.stop_ids)
        asked = {name: value for name, value in params.items() if name != "adapter"}
        wish = resolve_params(asked, base, evaluating=session.evaluating)
        turn_id = session.recorder.next_id()
        prompt = build_prompt(self.renderer, session.recorder, messages, tools)
        given = await self._next(messages, tools)
        text = given if isinstance(given, str) else hermes_text(given)
        ids, finish, whole = self._ids(text, wish.sampling)
        if isinstance(given, Message) and whole:
            reply = _with_ids(given, turn_id)
        else:
            reply = self.renderer.parse(ids, tools, call_id_prefix=turn_id, stop=wish.sampling.stop)
        key = randomness.fold(*session.rng_parts, int(turn_id.removeprefix("t")))
        return Turn(
            id=turn_id,
            completion_ids=ids,
            logprobs=tuple(-0.1 - randomness.uniform(key, index) for index in range(len(ids))),
            temperature=wish.sampling.temperature,
            versions=(Span(0, replace(self.version, adapter=params.get("adapter", self.version.adapter))),),
            finish_reason=finish,
            not_trainable=wish.sampling.not_trainable,
            reply=reply,
            tools=tuple(tools),
            metadata={"overridden": dict(wish.overridden)} if wish.overridden else {},
            **prompt.turn_fields(),
        )

    async def _next(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> str | Message:
        if callable(self._replies):
            reply = self._replies(messages, tools)
            if inspect.isawaitable(reply):
                reply = await reply
        else:
            with self._lock:
                if self._used >= len(self._replies):
                    raise InputError(
                        f"ScriptedPolicy was given {len(self._replies)} replies and asked for one more; give it more, or a callable"
                    )
                reply = self._replies[self._used]
                self._used += 1
        if isinstance(reply, BaseException) or (isinstance(reply, type) and issubclass(reply, BaseException)):
            raise reply
        return _read(reply)

    def _ids(self, text: str, sampling: SamplingParams) -> tuple[tuple[int, ...], FinishReason, bool]:
        """The text's ids as a model would have sampled them, and whether they are all of it.

        A stop text, a control token or the length cuts them; else the stop token ends them.
        """
        tokenizer = self.renderer.tokenizer
        end = min((at + len(mark) for mark in sampling.stop if (at := text.find(mark)) >= 0), default=None)
        ids = tokenizer.encode(text[:end])
        stopped = next((i for i, token in enumerate(ids) if token in sampling.stop_ids), None)
        whole = end is None and stopped is None
        if whole:
            ids.extend(sorted(tokenizer.stop_ids)[:1])
        ids = ids if stopped is None else ids[: stopped + 1]
        if len(ids) > sampling.max_tokens:
            return tuple(ids[: sampling.max_tokens]), "length", False
        return tuple(ids), "stop", whole


def _read(reply: Any) -> str | Message:
    """A reply in one of the known forms.

    Raises:
        InputError: it has none of them.
    """
    if isinstance(reply, str | Message):
        return reply
    if isinstance(reply, Mapping):
        return Message.from_wire({"role": "assistant", **reply})
    if isinstance(reply, Sequence) and not isinstance(reply, bytes):
        return Message(role="assistant", tool_calls=tuple(_call(call) for call in reply))
    raise InputError(
        f"a scripted reply must be text, a message, a dict, a list of tool calls or an exception, got {reply!r}"
    )


def _call(call: Any) -> ToolCall:
    if isinstance(call, ToolCall):
        return call
    if isinstance(call, Mapping) and "name" in call:
        call = (call["name"], call.get("arguments", {}))
    if isinstance(call, Sequence) and len(call) == 2 and isinstance(call[0], str):
        arguments = call[1] if isinstance(call[1], str) else json.dumps(call[1], ensure_ascii=False)
        return ToolCall(id="", name=call[0], arguments=arguments)
    raise InputError(f"a scripted tool call must be a ToolCall or a (name, arguments) pair, got {call!r}")


def _with_ids(message: Message, prefix: str) -> Message:
    """The message with an id for every call that has none."""
    calls = tuple(
        call if call.id else replace(call, id=f"{prefix}c{str(index).zfill(8 - len(prefix))}")
        for index, call in enumerate(message.tool_calls)
    )
    return replace(message, tool_calls=calls)
