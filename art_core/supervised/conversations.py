"""Rollouts as chats: what their model calls were asked and said, for a model that is to say the same.

A call whose conversation goes on in another one is part of that one's chat; what goes on in several is trained in the first
alone. So every reply is trained exactly once, after exactly the messages and tools it was given after.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from art_core.messages import Message, ToolSpec, canonical_json
from art_core.rollout.selection import Selection
from art_core.trajectory.trajectory import ModelCall, Trajectory

from .records import Chat

__all__ = ["chat_record", "chats_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One answered call."""

    messages: tuple[Message, ...]
    """The reply is the last one."""
    tools: tuple[ToolSpec, ...]
    keys: tuple[str, ...]
    """What it is compared by: the tools, then each message."""


def chats_of(trajectory: Trajectory, selection: Selection) -> list[Chat]:
    """The chats of a rollout's turns and of those calls of the agent's own models that ``selection`` trains.

    A call that failed, said nothing, or made a tool call that cannot be read is not trained.
    """
    calls = {call.keys: call for call in _calls(trajectory, selection)}
    begun = {keys[:end] for keys in calls for end in range(1, len(keys))}
    trained: set[tuple[str, ...]] = set()
    chats = []
    for keys, call in calls.items():
        if keys in begun:
            continue
        starts = [keys[:end] for end in range(2, len(keys) + 1)]
        flags = tuple(start in calls and start not in trained for start in starts)
        trained.update(start for start, flag in zip(starts, flags, strict=True) if flag)
        source = f"rollout {trajectory.rollout_id}"
        chats.append(Chat(source=source, messages=call.messages, tools=call.tools, trained=flags))
    return chats


def chat_record(chat: Chat) -> dict[str, Any]:
    """A chat as a line of a JSONL file that ``records.read_records`` reads."""
    messages = []
    for message, trained in zip(chat.messages, chat.trained, strict=True):
        wire = message.to_wire()
        if message.role == "assistant" and not trained:
            wire["train"] = False
        messages.append(wire)
    return {"messages": messages, "tools": [tool.to_wire() for tool in chat.tools]}


def _calls(trajectory: Trajectory, selection: Selection) -> Iterator[_Asked]:
    for turn in trajectory.graph:
        *asked, reply = trajectory.graph.history(turn.id)
        if _worth_saying(reply) and turn.finish_reason == "stop":
            yield _asked(asked, reply, turn.tools)
    for call in trajectory.model_calls:
        if call.error is None and call.reply is not None and _worth_saying(call.reply) and _is_own(call, selection):
            yield _asked(call.messages, call.reply, call.tools)


def _is_own(call: ModelCall, selection: Selection) -> bool:
    return selection.adapter_for(call.metadata) is not None


def _worth_saying(reply: Message) -> bool:
    return not reply.malformed_calls and bool(reply.text.strip() or reply.tool_calls)


def _asked(messages: Sequence[Message], reply: Message, tools: tuple[ToolSpec, ...]) -> _Asked:
    whole = (*messages, reply)
    offered = canonical_json([tool.to_wire() for tool in tools])
    return _Asked(messages=whole, tools=tools, keys=(offered, *(_key(message) for message in whole)))


def _key(message: Message) -> str:
    """What a message is compared by: an echo of a reply may lack its reasoning, and writes arguments as it likes."""
    calls = [[call.id, call.name, call.parsed()] for call in message.tool_calls]
    content = message.text if all(part.get("type") == "text" for part in _parts(message)) else list(_parts(message))
    return canonical_json([message.role, content, calls, message.tool_call_id])


def _parts(message: Message) -> Sequence[Mapping[str, Any]]:
    return message.content if isinstance(message.content, tuple) else ()
