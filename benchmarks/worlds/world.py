"""What a world is: something to ask about, and programs that stand in for the language models of a run without data.

A world knows what is there, so it can write requests, do them as a reference would, and judge an attempt by what it did and said.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from art_core.messages import canonical_json
from tests.servers.chat_server import call
from tests.servers.roles import Roles, said

__all__ = ["RULER", "Question", "World", "since_the_request"]

RULER = ("--reward", "ruler")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A request, what answers it and the fact that the answer has to state."""

    text: str
    difficulty: int
    calls: tuple[tuple[str, Mapping[str, Any]], ...]
    fact: str
    answer: str


@dataclass(slots=True, kw_only=True)
class World:
    """What a server has on it."""

    verb: Callable[[Path], list[str]]
    """The words after ``art train``, given where the servers are installed."""
    questions: Sequence[Question] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    """Its fixture: path → text."""
    options: tuple[str, ...] = ()
    """Further words."""
    system: str = ""
    """The system text of a task in words."""
    grades: Callable[[str, str], float] | None = None
    """Of the request and an attempt; unless given, by the calls that the question takes and the fact."""

    def roles(self) -> Roles:
        """What plays the language models of a run."""
        fresh = iter(self.questions)
        return Roles(
            writes=lambda wanted, prompt: [_entry(one) for one in itertools.islice(fresh, wanted)],
            does=self._does,
            system=self.system or None,
            grades=self.grades or self._grades,
        )

    def asked(self, text: str) -> Question:
        """The question with that text."""
        return next(one for one in self.questions if one.text == text.strip())

    def _does(self, messages: Sequence[Mapping[str, Any]]) -> Any:
        question = self.asked(said(messages, "user")[-1])
        done = sum(message["role"] == "tool" for message in messages)
        if done == len(question.calls):
            return question.answer
        name, arguments = question.calls[done]
        return call(name, **arguments)

    def _grades(self, context: str, attempt: str) -> float:
        """0.6 for the calls that it takes, each with its share, and 0.4 for an answer that states the fact, if the calls were made."""
        request, done = since_the_request(context, attempt)
        question = self.asked(request)
        calls = [f"→ {name}({canonical_json(dict(arguments))})" for name, arguments in question.calls]
        made = sum(one in done for one in calls) / len(calls)
        ending = done.rpartition("[assistant]")[2]
        stated = made == 1 and "→" not in ending and question.fact.casefold() in ending.casefold()
        return round(0.6 * made + 0.4 * stated, 3)


def since_the_request(context: str, attempt: str) -> tuple[str, str]:
    """The last request that a judge is shown, and everything after it: what all attempts did alike, then the attempt."""
    after = context.rpartition("[user]\n")[2]
    request, _, shared = after.partition("\n[")
    return request, f"[{shared}\n{attempt}" if shared else attempt


def _entry(question: Question) -> dict[str, Any]:
    tools = sorted({name for name, _ in question.calls})
    return {"request": question.text, "difficulty": question.difficulty, "tools": tools}
