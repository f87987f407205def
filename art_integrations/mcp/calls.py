"""The calls of one turn: made, answered with messages, recorded as events in the order the model wrote them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from art_core.messages import Message, ToolCall
from art_core.trajectory.trajectory import ToolEvent

from .catalog import ListedTool
from .environment import McpEnvironment
from .results import ToolResult

if TYPE_CHECKING:
    from art_core.rollout.session import Session
    from art_core.trajectory.graph import Turn

__all__ = ["answer", "together"]


async def answer(turn: Turn, session: Session, environment: McpEnvironment) -> list[Message]:
    """Make the calls of a turn; one message per call, in order. Calls that only read run side by side."""
    calls = [(call, environment.catalog.find(call.name)) for call in turn.reply.tool_calls]
    events: list[ToolEvent | None] = [None] * len(calls)
    work = [partial(_call, call, tool, turn, session, environment) for call, tool in calls]
    try:
        if all(tool is not None and tool.read_only for _, tool in calls):
            answers = await together([make(partial(events.__setitem__, at)) for at, make in enumerate(work)])
        else:
            answers = [await make(partial(events.__setitem__, at)) for at, make in enumerate(work)]
    finally:
        for event in events:
            if event is not None:
                session.record_tool(event)
    for malformed in turn.reply.malformed_calls:
        result = ToolResult.failed("malformed", f"your tool call could not be read: {malformed.error}")
        now = session.elapsed()
        session.record_tool(_event(turn, "", "", malformed.raw, result, now, now))
        answers.append(Message(role="user", content=result.text))
    return answers


async def _call(
    call: ToolCall,
    tool: ListedTool | None,
    turn: Turn,
    session: Session,
    environment: McpEnvironment,
    record: Callable[[ToolEvent], None],
) -> Message:
    session.check_tool_call()
    started = session.elapsed()
    arguments = call.parsed()
    result = ToolResult.failed("cancelled", "the rollout ended during the call")
    try:
        if tool is None:
            names = ", ".join(spec.name for spec in environment.tools)
            result = ToolResult.failed("unknown_tool", f"there is no tool {call.name!r}; the tools are: {names}")
        else:
            result = await environment.execute(tool, arguments)
    finally:
        record(_event(turn, call.id, call.name, arguments, result, started, session.elapsed(), tool=tool))
    return Message(role="tool", content=result.text, tool_call_id=call.id, name=call.name)


async def together(work: Sequence[Any]) -> list[Any]:
    """Run side by side to the end of all, then raise the first failure."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return list(results)


def _event(
    turn: Turn,
    call_id: str,
    name: str,
    arguments: Any,
    result: ToolResult,
    started: float,
    ended: float,
    *,
    tool: ListedTool | None = None,
) -> ToolEvent:
    origin = {"server": tool.server, "original_name": tool.original} if tool is not None else {}
    return ToolEvent(
        turn=turn.id,
        call_id=call_id,
        name=name,
        arguments=arguments,
        result=result.text,
        error=result.error,
        structured=result.structured,
        started_s=started,
        ended_s=ended,
        metadata=origin,
    )
