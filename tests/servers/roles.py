"""A service that plays the language models of a run without data: it writes scenarios, tries them, and judges, each by a program."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .chat_server import ChatServer, chat_server

__all__ = ["Roles", "roles_server", "said"]

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Roles:
    """What answers each kind of prompt; a role that is not played answers with HTTP status 400."""

    writes: Callable[[int, str], list[dict[str, Any]]] | None = None
    """Of how many requests are wanted and the whole prompt: the entries."""
    system: str | None = None
    """The system text of a task."""
    grades: Callable[[str, str], float] | None = None
    """Of what all attempts have in common and one attempt: its score."""
    does: Callable[[Messages], Any] | None = None
    """Of the conversation so far: a text, or a message that calls a tool; see ``chat_server.call``."""

    def __call__(self, body: Mapping[str, Any]) -> Any:
        messages = body["messages"]
        first, last = str(messages[0]["content"]), str(messages[-1]["content"])
        if first.startswith("You write the requests"):
            count = re.search(r"Write (\d+) requests", last)
            assert count is not None
            return 400 if self.writes is None else json.dumps({"scenarios": self.writes(int(count[1]), last)})
        if first.startswith("You write the system text"):
            return 400 if self.system is None else json.dumps({"system": self.system})
        if first.startswith(("You compare attempts", "You examine one attempt")):
            return 400 if self.grades is None else json.dumps({"scores": self._scores(last)})
        return 400 if self.does is None else self.does(messages)

    def _scores(self, prompt: str) -> list[dict[str, Any]]:
        assert self.grades is not None
        context = re.search(r"<context>\n(.*?)\n</context>", prompt, re.DOTALL)
        attempts = re.findall(r'<trajectory id="(\w+)">\n(.*?)\n</trajectory>', prompt, re.DOTALL)
        return [
            {"trajectory_id": name, "explanation": "", "score": self.grades(context[1] if context else "", text)}
            for name, text in attempts
        ]


@contextlib.contextmanager
def roles_server(roles: Roles) -> Iterator[ChatServer]:
    """The service, at ``url``, while the block runs; as a model: ``m@URL``."""
    with chat_server(lambda body: roles(body)) as server:
        yield server


def said(messages: Messages, role: str) -> list[str]:
    """The texts of that role, in order."""
    return [str(message.get("content") or "") for message in messages if message["role"] == role]
