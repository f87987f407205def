"""Whether two requests ask for nearly the same: by their words, since no model of meaning is needed for that."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

__all__ = ["Known", "traits_of"]

_WORD = re.compile(r"[^\W_]+(?:[.:/@-][^\W_]+)*")
_ENDING = re.compile(r"(?<=\w{3})(?:ing|ed|es|s)$")
_EMPTY = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "at",
        "be",
        "can",
        "could",
        "do",
        "does",
        "for",
        "from",
        "how",
        "i",
        "in",
        "is",
        "it",
        "its",
        "just",
        "me",
        "my",
        "of",
        "on",
        "or",
        "please",
        "show",
        "tell",
        "that",
        "the",
        "this",
        "to",
        "us",
        "was",
        "we",
        "what",
        "when",
        "which",
        "will",
        "with",
        "would",
        "you",
        "your",
        "give",
        "find",
        "get",
        "let",
        "know",
        "want",
        "need",
    ]
)


def traits_of(text: str) -> frozenset[str]:
    """The words that carry a request, without endings, and each two that follow each other; numbers, times and paths stay whole.

    >>> sorted(traits_of("Please show me the orders of 12:30, would you?"))
    ['12:30', 'order', 'order 12:30']
    """
    words = [_ENDING.sub("", word.casefold()) for word in _WORD.findall(text) if word.casefold() not in _EMPTY]
    pairs = (f"{first} {second}" for first, second in itertools.pairwise(words))
    return frozenset([*words, *pairs]) or frozenset([text.casefold()])


class Known:
    """Requests that are there already.

    >>> known = Known(["How far is it from Rome to Oslo?"])
    >>> known.like("Tell me how far it is from Rome to Oslo."), known.like("How far is it from Oslo to Rome?")
    ('How far is it from Rome to Oslo?', None)
    """

    def __init__(self, texts: Iterable[str] = (), *, share: float = 0.8) -> None:
        self._share = share
        self._texts: list[tuple[str, frozenset[str]]] = []
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        self._texts.append((text, traits_of(text)))

    def like(self, text: str) -> str | None:
        """One that has at least ``share`` of its traits in common with ``text``, of all traits of both; None if there is none."""
        traits = traits_of(text)
        for known, others in self._texts:
            if len(traits & others) >= self._share * len(traits | others):
                return known
        return None
