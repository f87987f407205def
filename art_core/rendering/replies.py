"""The text a model has to write to give a known reply: the template's own, from the generation prompt to the end of the turn.

Nothing about a template is assumed. Where it renders what came before the reply in another way once the reply is there,
the place at which the reply begins is found with a stand-in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from art_core.messages import Message

from .bridge import MARK, Render

__all__ = ["find_reply"]

_THINK, _THOUGHT = "<think>", "</think>"


def find_reply(
    render: Render,
    history: Sequence[Message],
    reply: Message,
    following: Message,
    *,
    special: re.Pattern[str],
    stops: re.Pattern[str],
) -> str | None:
    """What follows the prompt for ``history``, up to and including the end-of-turn text.

    The end of a turn is missing where the template writes none. None: the template does not show where a reply begins.

    Args:
        following: a message that comes after the reply; asked for where the next message's opening ends a turn.
        special: matches a control token, ``stops`` those that can end a turn.

    Raises:
        InputError: the template refuses the conversation.
    """
    prompt, whole = render(history, True), render([*history, reply], False)
    opened = prompt.rstrip().endswith(_THINK)
    if whole.startswith(prompt):
        text = whole[len(prompt) :]
    else:
        begin = _begin(prompt, whole, render([*history, Message(role="assistant", content=MARK)], False), special)
        if begin is None:
            return None
        text = whole[begin:]
        if opened:
            text = _continued(text)
    if not stops.search(text):
        text += _next_opening(whole, render([*history, reply, following], False), stops)
    stop = stops.search(text)
    return text[: stop.end()] if stop else text


def _begin(prompt: str, whole: str, stand_in: str, special: re.Pattern[str]) -> int | None:
    """Where the reply begins in ``whole``: behind what the prompt ends with, from its last control token on."""
    bare = prompt.rstrip()
    bare = bare.removesuffix(_THINK) if bare.endswith(_THINK) else prompt
    last = next(reversed(list(special.finditer(bare))), None)
    if last is None or stand_in.count(MARK) != 1:
        return None
    head, opening = stand_in.partition(MARK)[0], bare[last.start() :]
    at = head.rfind(opening)
    end = at + len(opening)
    return end if at >= 0 and whole.startswith(head[:end]) else None


def _continued(text: str) -> str:
    """A reply for a prompt that has opened the thinking part already."""
    own = text.lstrip()
    if own.startswith(_THINK):
        return own.removeprefix(_THINK).removeprefix("\n")
    return f"\n{_THOUGHT}\n\n{text}"


def _next_opening(whole: str, continued: str, stops: re.Pattern[str]) -> str:
    """The text that ends the turn by opening the next message; empty where there is none."""
    if not continued.startswith(whole):
        return ""
    rest = continued[len(whole) :]
    stop = stops.match(rest.lstrip())
    return rest[: len(rest) - len(rest.lstrip())] + stop.group() if stop else ""
