"""A policy of a few lines for the rollout tests: byte ids, fixed logprobs, replies from a list or a function."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from art_core.messages import Message, ToolCall, ToolSpec
from art_core.scenario import Scenario
from art_core.trajectory.graph import PolicyVersion, Span, Turn

TASK = Scenario("s1", "What is 1+1?")
USER = {"role": "user", "content": "hi"}
CALL = Message(role="assistant", tool_calls=(ToolCall(id="c1", name="add", arguments='{"a": 1}'),))
ADD = {"type": "function", "function": {"name": "add", "description": "", "parameters": {"type": "object"}}}


class BytesPolicy:
    """Answers with ``reply`` (a text, a Message, an exception to raise, or a function of the messages that gives one)."""

    def __init__(self, reply: Any = "ok", *, delay: float = 0.0, finish_reason: str = "stop") -> None:
        self.reply = reply
        self.delay = delay
        self.finish_reason = finish_reason
        self.params: list[dict[str, Any]] = []
        self.keys: list[tuple[Any, ...]] = []
        self.running = 0
        self.most = 0

    async def complete(
        self, session: Any, messages: Sequence[Message], tools: Sequence[ToolSpec], params: dict[str, Any]
    ) -> Turn:
        self.params.append(params)
        self.keys.append(session.rng_parts)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(self.delay)
        finally:
            self.running -= 1
        reply: Any = self.reply
        if isinstance(reply, Callable) and not isinstance(reply, type):  # type: ignore[arg-type]
            reply = reply(messages)
        if isinstance(reply, BaseException):
            raise reply
        message = reply if isinstance(reply, Message) else Message(role="assistant", content=reply)
        ids = (*message.text.encode(), 0)
        return Turn(
            id=session.recorder.next_id(),
            context_ids=tuple("".join(m.text for m in messages).encode()),
            completion_ids=ids,
            logprobs=(-0.5,) * len(ids),
            versions=(Span(0, PolicyVersion("default", 3)),),
            finish_reason=self.finish_reason,  # type: ignore[arg-type]
            messages=tuple(messages),
            reply=message,
            tools=tuple(tools),
        )


async def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait until ``condition()`` holds, at most ``seconds``."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:  # noqa: ASYNC110 - the condition is not an event
        await asyncio.sleep(0.01)


def turns(n: int) -> Callable[..., Any]:
    """An async agent that makes ``n`` model calls and returns the last answer."""

    async def agent(scenario: Scenario, session: Any) -> str:
        completion = None
        for _ in range(n):
            completion = await session.chat([USER])
        return completion.choices[0].message.content if completion else ""

    return agent
