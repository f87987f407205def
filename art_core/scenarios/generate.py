"""Makes scenarios from tool lists: a request in plain words and the call that answers it.

Every expected call validates against its tool's schema, every request says every value, and equal input gives equal
scenarios. What could not be made is reported, tool by tool.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from jsonschema.protocols import Validator

from art_core.errors import InputError
from art_core.messages import ToolSpec, canonical_json
from art_core.randomness import fold, rng
from art_core.scenario import Scenario

from .arguments import Argument, Hints, draw_arguments
from .requests import phrase_request
from .schema import NoValue, valid, validator
from .words import imperative

__all__ = ["Generated", "generate", "parse_hints"]

_TEXTS_PER_CALL = 3
_FRUITLESS = 60
_CONTENT_KINDS = frozenset({"zone"})  # what is asked about, however it is said; mapped values are so in any case
_NAMES_SOMETHING = frozenset({"path", "table", "slug"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """What ``generate`` made and what it could not make."""

    scenarios: tuple[Scenario, ...]
    skipped: dict[str, str] = field(default_factory=dict)
    """Tool -> why no scenario could be made for it."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Tool -> how many drawn calls did not validate against its schema."""
    unhinted: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Parameter -> the tools where it names something on the server (a path, an id) and was made up for want of a hint."""
    shortfall: str | None = None
    """Why there are fewer scenarios than asked for; None if there are not."""


def generate(tools: Sequence[ToolSpec], count: int, *, seed: int = 0, hints: Hints | None = None) -> Generated:
    """Up to ``count`` scenarios, spread evenly over the tools that can be asked for.

    Texts are unique. A call is asked for again in other words (three texts at most) only when its tool has no further
    calls, as for tools with few or no parameters. The scenarios of one tool depend on the tool, the seed and the hints, not on
    the other tools or on ``count``.

    Args:
        tools: as the server lists them.
        count: at least 1.
        seed: another seed, other scenarios.
        hints: values for parameters that must name something real; see ``parse_hints``.

    Raises:
        InputError: ``count`` is not positive, there are no tools, two share a name, or a hint names no parameter.
    """
    hints = hints or {}
    _check(tools, count, hints)
    orders = Counter(imperative(tool).casefold() for tool in tools)
    makers = [_Maker(tool, hints, seed, by_name=orders[imperative(tool).casefold()] > 1) for tool in tools]
    scenarios: list[Scenario] = []
    texts: set[str] = set()
    streams = {maker.tool.name: iter(maker) for maker in makers}
    while streams and len(scenarios) < count:
        for name, stream in list(streams.items()):
            scenario = next((item for item in stream if _normal(str(item.input)) not in texts), None)
            if scenario is None:
                del streams[name]
            elif len(scenarios) < count:
                texts.add(_normal(str(scenario.input)))
                scenarios.append(scenario)
    return Generated(
        scenarios=tuple(scenarios),
        skipped={maker.tool.name: maker.reason for maker in makers if maker.reason},
        dropped={maker.tool.name: maker.dropped for maker in makers if maker.dropped},
        unhinted=_unhinted(makers),
        shortfall=None if len(scenarios) == count else _shortfall(len(scenarios), count, makers),
    )


def parse_hints(options: Sequence[str]) -> dict[str, list[Any]]:
    """Hints from ``name=value`` options, where name is a parameter or ``tool.parameter``; a name may come several times.

    A value is read as JSON where it is JSON, else as text.

    >>> parse_hints(["repo_path=/srv/repo", "max_count=3", "max_count=5"])
    {'repo_path': ['/srv/repo'], 'max_count': [3, 5]}

    Raises:
        InputError: an option is not of that form.
    """
    hints: dict[str, list[Any]] = {}
    for option in options:
        name, equals, text = option.partition("=")
        if not name.strip() or not equals:
            raise InputError(f"hint {option!r} is not of the form parameter=value, such as repo_path=/srv/repo")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        hints.setdefault(name.strip(), []).append(value)
    return hints


def _check(tools: Sequence[ToolSpec], count: int, hints: Hints) -> None:
    if count < 1:
        raise InputError(f"count must be at least 1, got {count!r}")
    if not tools:
        raise InputError("there are no tools to make scenarios from; the server lists none")
    twice = [name for name, times in Counter(tool.name for tool in tools).items() if times > 1]
    if twice:
        raise InputError(f"two tools are named {twice[0]!r}; names must be unique")
    text = " ".join(canonical_json(dict(tool.parameters)) for tool in tools)
    known = set(re.findall(r'"([^"]+)":', text))
    for name, values in hints.items():
        if name.rpartition(".")[2] not in known:
            raise InputError(f"hint {name!r} names no parameter of these tools")
        if not values:
            raise InputError(f"hint {name!r} has no values; give at least one")


class _Maker:
    """The scenarios of one tool, new calls first."""

    def __init__(self, tool: ToolSpec, hints: Hints, seed: int, *, by_name: bool) -> None:
        self.tool, self.hints, self.seed, self.by_name = tool, hints, seed, by_name
        self.reason = "its description says it is deprecated" if _deprecated(tool) else ""
        self.dropped = 0
        self.unhinted: set[str] = set()
        self.checker: Validator | None = None

    def __iter__(self) -> Iterator[Scenario]:
        if self.reason:
            return
        spare: list[Scenario] = []
        said: dict[str, set[str]] = {}
        fruitless = attempt = 0
        while fruitless < _FRUITLESS:
            random_ = rng("scenario", self.seed, self.tool.name, attempt)
            attempt, fruitless = attempt + 1, fruitless + 1
            arguments = self._draw(random_)
            if arguments is None:
                continue
            scenario = self._scenario(arguments, random_)
            texts = said.setdefault(canonical_json(scenario.expected), set())
            if not texts:
                fruitless = 0
                yield scenario
            elif len(texts) < _TEXTS_PER_CALL and scenario.input not in texts:
                spare.append(scenario)
            if len(texts) < _TEXTS_PER_CALL:
                texts.add(str(scenario.input))
        if said:
            self.reason = ""
        yield from spare

    def _draw(self, random_: random.Random) -> list[Argument] | None:
        """Arguments that fit the schema, or None with the reason kept."""
        try:
            checker = self.checker = self.checker or validator(self.tool.parameters)
            arguments = draw_arguments(self.tool, self.hints, random_)
            fits = valid(checker, {item.name: item.value.literal for item in arguments})
        except NoValue as error:
            self.reason = str(error)
            return None
        if not fits:
            self.dropped += 1
            self.reason = f"none of {self.dropped} drawn calls fits its input schema"
            return None
        self.unhinted.update(item.name for item in arguments if item.value.kind in _NAMES_SOMETHING)
        return arguments

    def _scenario(self, arguments: Sequence[Argument], random_: random.Random) -> Scenario:
        text = phrase_request(self.tool, arguments, random_, by_name=self.by_name)
        call = {"name": self.tool.name, "arguments": {item.name: item.value.literal for item in arguments}}
        content = sorted(
            canonical_json(item.value.literal)
            for item in arguments
            if item.value.mapped or item.value.kind in _CONTENT_KINDS
        )
        metadata: dict[str, Any] = {
            "tool": self.tool.name,
            "made_by": "schema",
            "seed": self.seed,
            "phrases": {item.name: item.value.phrase for item in arguments},
        }
        if len(content) > 1:
            metadata["content"] = [f"{self.tool.name}:{'|'.join(content)}"]
        return Scenario(f"{self.tool.name}-{fold(text, canonical_json(call)):016x}", text, {"calls": [call]}, metadata)


def _deprecated(tool: ToolSpec) -> bool:
    return re.search(r"\bdeprecated\b", tool.description, re.IGNORECASE) is not None


def _normal(text: str) -> str:
    return " ".join(text.casefold().split())


def _unhinted(makers: Sequence[_Maker]) -> dict[str, tuple[str, ...]]:
    names = sorted({name for maker in makers for name in maker.unhinted})
    return {name: tuple(maker.tool.name for maker in makers if name in maker.unhinted) for name in names}


def _shortfall(made: int, count: int, makers: Sequence[_Maker]) -> str:
    skipped = sum(bool(maker.reason) for maker in makers)
    return (
        f"{made} of {count} scenarios were made: the {len(makers) - skipped} usable tools have no further distinct requests"
        + (f", and {skipped} tools were skipped" if skipped else "")
    )
