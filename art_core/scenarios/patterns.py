"""Text that matches a simple regular expression: literals, classes, groups, alternatives and repeats."""

from __future__ import annotations

import random
import re
import string

from .schema import NoValue

__all__ = ["draw_pattern"]

_CLASSES = {"d": string.digits, "w": string.ascii_lowercase + string.digits, "s": " "}
_ANY = string.ascii_lowercase
_MOST_REPEATS = 8


def draw_pattern(pattern: str, random_: random.Random) -> str:
    """One text the pattern matches.

    Raises:
        NoValue: the pattern uses something this does not know (look-around, back-references, negated classes ...).
    """
    text = _Reader(pattern, random_).read()
    try:
        fits = re.search(pattern, text) is not None
    except re.error as error:
        raise NoValue(f"its pattern {pattern!r} is not a valid regular expression") from error
    if not fits:
        raise NoValue(f"no text could be made for its pattern {pattern!r}")
    return text


class _Reader:
    """Walks the pattern once, writing a match as it goes."""

    def __init__(self, pattern: str, random_: random.Random) -> None:
        self.pattern, self.random, self.at = pattern, random_, 0

    def read(self) -> str:
        text = self._alternatives()
        if self.at < len(self.pattern):
            raise self._unknown()
        return text

    def _unknown(self) -> NoValue:
        return NoValue(f"no text could be made for its pattern {self.pattern!r}")

    def _peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def _take(self) -> str:
        char = self._peek()
        if not char:
            raise self._unknown()
        self.at += 1
        return char

    def _alternatives(self) -> str:
        options = [self._sequence()]
        while self._peek() == "|":
            self.at += 1
            options.append(self._sequence())
        return self.random.choice(options)

    def _sequence(self) -> str:
        made = []
        while self._peek() and self._peek() not in "|)":
            start = self.at
            text = self._atom()
            end = self.at
            low, high = self._repeats()
            after = self.at
            if (low, high) != (1, 1):
                text = ""
                for _ in range(self.random.randint(low, high)):
                    self.at = start
                    text += self._atom()
                self.at = after
            made.append(text)
            if end == start:
                raise self._unknown()
        return "".join(made)

    def _repeats(self) -> tuple[int, int]:
        char = self._peek()
        if char in ("*", "+", "?"):
            self.at += 1
            low, high = {"*": (0, 4), "+": (1, 6), "?": (0, 1)}[char]
        elif found := re.compile(r"\{(\d+)(,?)(\d*)\}").match(self.pattern, self.at):
            self.at = found.end()
            low = int(found[1])
            high = int(found[3]) if found[3] else low + 3 if found[2] else low
            high = min(high, max(low, _MOST_REPEATS))
        else:
            return 1, 1
        if self._peek() in ("?", "+"):
            self.at += 1
        return low, high

    def _atom(self) -> str:
        char = self._take()
        if char in "^$":
            return ""
        if char == ".":
            return self.random.choice(_ANY)
        if char == "\\":
            return self._escape()
        if char == "[":
            return self.random.choice(self._class())
        if char == "(":
            return self._group()
        if char in "*+?{":
            raise self._unknown()
        return char

    def _group(self) -> str:
        if self._peek() == "?":
            if self.pattern[self.at : self.at + 2] != "?:":
                raise self._unknown()
            self.at += 2
        text = self._alternatives()
        if self._take() != ")":
            raise self._unknown()
        return text

    def _escape(self) -> str:
        char = self._take()
        if char in _CLASSES:
            return self.random.choice(_CLASSES[char])
        if char in "bB":
            return ""
        if char.isalnum():
            raise self._unknown()
        return char

    def _class(self) -> str:
        if self._peek() == "^":
            raise self._unknown()
        members = ""
        while self._peek() != "]" or not members:
            char = self._take()
            if char == "\\":
                char = self._take()
                members += _CLASSES.get(char, char)
            elif self._peek() == "-" and self.pattern[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                members += "".join(map(chr, range(ord(char), ord(self._take()) + 1)))
            else:
                members += char
        self.at += 1
        return members
