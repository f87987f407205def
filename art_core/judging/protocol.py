"""What a judge is: something that answers messages with a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["Answer", "Judge", "Messages"]

Messages = Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a judge said, with the tokens as its service counts them; None where it does not tell."""

    text: str
    finished: bool = True
    """False if the reply was cut off by its length."""
    input_tokens: int | None = None
    output_tokens: int | None = None


class Judge(Protocol):
    """Something that can be asked."""

    @property
    def name(self) -> str: ...

    async def ask(self, messages: Messages, *, schema: Mapping[str, Any], max_tokens: int, seconds: float) -> Answer:
        """One reply. ``schema`` is what it should be; a judge that can be held to it is.

        Raises:
            JudgeError: no answer.
        """
        ...
