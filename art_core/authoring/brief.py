"""What a language model is asked for when it writes scenarios, and which of what it answers can be used."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from art_core.errors import InputError, JudgeError
from art_core.judging.json_reply import json_in, short
from art_core.judging.prompt import tool_lines
from art_core.messages import ToolSpec, canonical_json
from art_core.scenario import Scenario

__all__ = ["Brief", "Flaw", "Request", "read_requests"]

LEVELS = range(1, 6)
_SHOWN = 30
_LONGEST = 4_000

_INSTRUCTIONS = """\
You write the requests that an assistant is to be trained on. Each is what one person would write, complete in itself: whatever it is
about is said in it. Make them as different as real people and real days are: in what they want, in length, in tone. Answer with a JSON object
alone."""


class Flaw(Exception):
    """Why an entry cannot be used, in words that are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One entry that can be used."""

    messages: tuple[str, ...]
    """What the person says, one text after each answer."""
    difficulty: int
    tools: tuple[str, ...]

    @property
    def input(self) -> Any:
        """As ``Scenario.input``: a text, or several user messages."""
        if len(self.messages) == 1:
            return self.messages[0]
        return [{"role": "user", "content": text} for text in self.messages]


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """What the assistant is for.

    Raises:
        InputError: nothing is said about it, or fewer than one message.
    """

    about: str
    """In words."""
    tools: tuple[ToolSpec, ...] = ()
    facts: tuple[str, ...] = ()
    """What is really there to ask about, such as the resources of a server: requests are to be about these."""
    turns: int = 1
    """Messages that the person sends, each after the answer to the one before."""

    def __post_init__(self) -> None:
        if not self.about.strip():
            raise InputError("say in a few words what the assistant is for; scenarios are written from that")
        if self.turns < 1:
            raise InputError(f"a scenario has at least 1 message of the user, got turns {self.turns!r}")

    @property
    def key(self) -> str:
        """Names this brief in what was written from it."""
        told = [self.about, [tool.to_wire() for tool in self.tools], list(self.facts), self.turns]
        return hashlib.sha256(canonical_json(told).encode()).hexdigest()[:12]

    def asking(self, count: int, before: Sequence[Scenario]) -> list[dict[str, str]]:
        """The messages that ask for ``count`` further requests."""
        parts = [f"What the assistant is for:\n{self.about.strip()}"]
        if self.tools:
            parts.append(f"The tools it has:\n{tool_lines(self.tools)}")
        if self.facts:
            parts.append("What is there; ask about nothing else:\n" + "\n".join(self.facts))
        if before:
            shown = "\n".join(f"- {' / '.join(messages_of(scenario))}" for scenario in before[-_SHOWN:])
            parts.append(f"These are written already; write others:\n{shown}")
        parts.append(f"Write {count} requests. {self._form(before)}")
        return [{"role": "system", "content": _INSTRUCTIONS}, {"role": "user", "content": "\n\n".join(parts)}]

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the answer."""
        tool: dict[str, Any] = {"type": "string"}
        if self.tools:
            tool["enum"] = [one.name for one in self.tools]
        said = {"type": "string"} if self.turns == 1 else {"type": "array", "items": {"type": "string"}}
        properties = {
            self._said: said,
            "difficulty": {"type": "integer", "enum": list(LEVELS)},
            "tools": {"type": "array", "items": tool},
        }
        entry = {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
        whole = {"scenarios": {"type": "array", "items": entry}}
        return {"type": "object", "properties": whole, "required": ["scenarios"], "additionalProperties": False}

    def accept(self, entry: Any) -> Request:
        """An entry of the answer, checked.

        Raises:
            Flaw: it cannot be used.
        """
        if not isinstance(entry, Mapping):
            raise Flaw("without a request")
        return Request(messages=self._messages(entry), difficulty=_level(entry), tools=self._tools(entry))

    @property
    def _said(self) -> str:
        return "request" if self.turns == 1 else "messages"

    def _form(self, before: Sequence[Scenario]) -> str:
        levels = Counter(scenario.metadata["difficulty"] for scenario in before)
        least = min(levels[level] for level in LEVELS)
        rare = ", ".join(str(level) for level in LEVELS if levels[level] == least)
        several = (
            ""
            if self.turns == 1
            else f"Each has {self.turns} messages of one person, sent one after the other: each one is read, and answered, before the next. "
        )
        said = '"…"' if self.turns == 1 else '["…", "…"]'
        return (
            f"{several}difficulty is from 1 (one obvious step) to 5 (several steps, of which the later ones depend on what the earlier "
            f"ones bring); fewest there are of {rare}. tools are the names of those that the request takes"
            f"{'' if self.tools else ': none, []'}.\n"
            f'Answer in this form: {{"scenarios": [{{"{self._said}": {said}, "difficulty": 1, "tools": ["…"]}}]}}'
        )

    def _messages(self, entry: Mapping[str, Any]) -> tuple[str, ...]:
        said = entry.get(self._said)
        texts = [said] if self.turns == 1 else said
        if not isinstance(texts, list) or not all(isinstance(text, str) and text.strip() for text in texts):
            raise Flaw("without a request")
        if len(texts) != self.turns:
            raise Flaw(f"without {self.turns} messages")
        if sum(map(len, texts)) > _LONGEST:
            raise Flaw("too long")
        return tuple(text.strip() for text in texts)

    def _tools(self, entry: Mapping[str, Any]) -> tuple[str, ...]:
        tools = (entry.get("tools") if self.tools else None) or []
        names = {tool.name for tool in self.tools}
        if not isinstance(tools, list) or not all(isinstance(tool, str) and tool in names for tool in tools):
            raise Flaw("with a tool that does not exist")
        return tuple(tools)


def messages_of(scenario: Scenario) -> list[str]:
    """What the person says in a scenario that was written here."""
    if isinstance(scenario.input, str):
        return [scenario.input]
    return [str(message["content"]) for message in scenario.input]


def read_requests(text: str) -> list[Any]:
    """The entries of an answer, not yet checked.

    Raises:
        JudgeError: it holds no list of them.
    """
    value = json_in(text, lambda found: isinstance(found, Mapping) and isinstance(found.get("scenarios"), list))
    entries = value.get("scenarios") if isinstance(value, Mapping) else value
    if not isinstance(entries, list) or not entries:
        raise JudgeError(f"scenarios is {short(entries)}, not a list of requests")
    return entries


def _level(entry: Mapping[str, Any]) -> int:
    level = entry.get("difficulty")
    told = isinstance(level, int) or (isinstance(level, str) and level.isdecimal())
    if isinstance(level, bool) or not told or int(level or 0) not in LEVELS:
        raise Flaw("without a difficulty from 1 to 5")
    return int(level or 0)
