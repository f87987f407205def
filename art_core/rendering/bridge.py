"""The bridge: the template's own text between the end of a sampled reply and the next reply.

It is found by rendering the conversation with a stand-in reply and taking what follows the stand-in's end of turn.
Nothing about a template is assumed. Where what came before the reply would now be rendered differently (a template
that moves its system text or tool list along), there is no bridge.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from art_core.errors import InputError
from art_core.messages import Message, ToolCall

__all__ = ["MARK", "Bridge", "Render", "find_bridge"]

MARK = "Q7xStandInReplyQ7x"
"""The text of the stand-in reply: letters and digits only, so that no template trims or escapes it."""

Render = Callable[[Sequence[Message], bool], str]
"""(messages, add_generation_prompt) -> text; raises InputError where the template refuses."""

_EMPTY_THINKING = re.compile(r"<think>\s*</think>\s*")


@dataclass(frozen=True, slots=True)
class Bridge:
    """``text`` begins with the end-of-turn text (or the marker that ends the turn) if ``stop`` is True."""

    text: str
    stop: bool


def find_bridge(
    render: Render, history: Sequence[Message], new: Sequence[Message], stops: re.Pattern[str]
) -> Bridge | None:
    """The text that follows the last message of ``history`` (a sampled reply) when ``new`` messages come after it.

    ``stops`` matches any text that can end a turn. None: the template has no stable continuation.
    """
    asked = [replace(m, reasoning=None) if m.reasoning else m for m in history[:-1]]
    try:
        before = _calm(render(asked, True)).rstrip().removesuffix("<think>").rstrip()
    except InputError:
        return None
    for stand_in in _stand_ins(history[-1], new):
        bridge = _with_stand_in(render, before, asked, stand_in, new, stops)
        if bridge is not None:
            return bridge
    return None


def _with_stand_in(
    render: Render,
    before: str,
    asked: Sequence[Message],
    stand_in: Message,
    new: Sequence[Message],
    stops: re.Pattern[str],
) -> Bridge | None:
    try:
        closed = render([*asked, stand_in], False)
        continued = render([*asked, stand_in, *new], True)
    except InputError:
        return None
    if closed.count(MARK) != 1 or continued.count(MARK) != 1:
        return None
    head, tail = continued.split(MARK)
    if not _calm(head).startswith(before):
        return None
    ending = closed.split(MARK)[1]
    stop = stops.search(ending)
    closers = (ending[: stop.start()] if stop else ending).rstrip()
    if not tail.startswith(closers):
        return None
    rest = tail[len(closers) :]
    if stops.match(rest.lstrip()):
        return Bridge(rest.lstrip(), True)
    return None if stop else Bridge(tail[len(ending) :] if tail.startswith(ending) else rest, False)


def _stand_ins(reply: Message, new: Sequence[Message]) -> Iterator[Message]:
    """Replies to try: shaped like the real one, then one that made the calls the new tool messages answer."""
    answered = [m.tool_call_id for m in new if m.role == "tool" and m.tool_call_id is not None]
    if reply.tool_calls:
        yield _calling([(call.id, call.name) for call in reply.tool_calls])
    else:
        yield Message(role="assistant", content=MARK)
    if answered:
        yield _calling([(call_id, "tool") for call_id in answered])


def _calling(calls: Sequence[tuple[str, str]]) -> Message:
    last = len(calls) - 1
    return Message(
        role="assistant",
        tool_calls=tuple(
            ToolCall(id=call_id, name=name, arguments='{"a": "' + MARK + '"}' if i == last else "{}")
            for i, (call_id, name) in enumerate(calls)
        ),
    )


def _calm(text: str) -> str:
    return _EMPTY_THINKING.sub("", text)
