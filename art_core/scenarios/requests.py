"""Turns a drawn call into the request a person would make, in one of several phrasings.

Whatever the phrasing, it says every argument's value.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from art_core.messages import ToolSpec

from .arguments import Argument
from .words import imperative, join, lower_first, split_name, upper_first, use_by_name

__all__ = ["phrase_request"]

_FROM = frozenset({"source", "from", "origin", "src", "start", "base"})
_TO = frozenset({"target", "to", "destination", "dest", "dst", "end"})

_NOW = (
    "What time is it in {zone} right now?",
    "What time is it in {zone}?",
    "What is the current time in {zone}?",
    "Tell me the current time in {zone}.",
    "I want to call a friend in {zone}. What time is it there now?",
    "What is the local time in {zone} at the moment?",
)
_CONVERT = (
    "It is {clock} in {source}. What time is it in {target}?",
    "When it is {clock} in {source}, what time is it in {target}?",
    "Convert {clock} {source} time to {target} time.",
    "A call starts at {clock} in {source}. What time is that in {target}?",
    "If the clock shows {clock} in {source}, what does it show in {target}?",
    "The meeting is at {clock} {source} time. When is that in {target}?",
    "A show starts at {clock} in {source}. When does it start for me in {target}?",
)
_FRAMES = {("zone",): _NOW, ("clock", "source zone", "target zone"): _CONVERT}

_OPENINGS = ("{order}", "Please {lower}", "I need you to {lower}", "I would like you to {lower}", "Your task: {lower}")


def phrase_request(
    tool: ToolSpec, arguments: Sequence[Argument], random_: random.Random, *, by_name: bool = False
) -> str:
    """One request for the call.

    ``by_name`` says the tool's name in it, for tools whose descriptions promise the same thing.
    """
    frames = _frames(tool, arguments)
    if frames and not by_name:
        return random_.choice(frames).format(**{_slot(item): item.value.phrase for item in arguments})
    order = use_by_name(tool) if by_name else imperative(tool)
    opening = random_.choice(_OPENINGS).format(order=order, lower=lower_first(order))
    return opening + _clause(arguments, random_)


def _frames(tool: ToolSpec, arguments: Sequence[Argument]) -> Sequence[str]:
    if not re.search(r"\btimes?\b", f"{' '.join(split_name(tool.name))} {tool.description.lower()}"):
        return ()
    roles = sorted(_role(item) for item in arguments)
    return _FRAMES.get(tuple(roles), ())


def _role(argument: Argument) -> str:
    words = set(argument.label.split())
    side = "source " if words & _FROM else "target " if words & _TO else ""
    return f"{side}{argument.value.kind or 'plain'}"


def _slot(argument: Argument) -> str:
    role = _role(argument)
    return role.split()[0]


def _verb(argument: Argument) -> str:
    plural = argument.label.endswith("s") and not argument.label.endswith(("ss", "us", "is"))
    several = isinstance(argument.value.literal, list | int | float) and not isinstance(argument.value.literal, bool)
    return "are" if plural and several else "is"


def _clause(arguments: Sequence[Argument], random_: random.Random) -> str:
    if not arguments:
        return random_.choice((".", " now."))
    if len(arguments) == 1 and random_.random() < 0.3:
        return f": {arguments[0].value.phrase}"
    style = random_.randrange(4)
    pairs = [(item.label, item.value.phrase) for item in arguments]
    if style == 0 and all(len(said) < 60 for _, said in pairs):
        return f" with {join([f'{label} {said}' for label, said in pairs])}."
    if style == 1:
        return "." + "".join(f" {upper_first(label)}: {said}." for label, said in pairs)
    if style == 2:
        return ". " + " ".join(f"The {item.label} {_verb(item)} {item.value.phrase}." for item in arguments)
    return " (" + ", ".join(f"{label}: {said}" for label, said in pairs) + ")."
