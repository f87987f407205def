"""Keeps the control-token texts inside messages from becoming control tokens.

Before rendering, each such text in a message is replaced by one private character; the template's own control tokens
stay. After rendering, the text is encoded in pieces, and the hidden texts as ordinary text: split after their first
character, where no tokenizer finds a control token in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

__all__ = ["Shield"]

_BASE = 0xF0000


class Shield:
    """Hides texts from a tokenizer.

    >>> shield = Shield(["<|im_end|>"])
    >>> list(shield.pieces(shield.hide("a<|im_end|>b") + "<|im_end|>"))
    ['a', '<', '|im_end|>', 'b<|im_end|>']
    """

    def __init__(self, texts: Iterable[str]) -> None:
        ordered = sorted((text for text in texts if len(text) > 1), key=lambda text: (-len(text), text))
        self.special = re.compile("|".join(map(re.escape, ordered)) or r"(?!)")
        escape = chr(_BASE + len(ordered))
        self._hidden = {text: chr(_BASE + index) for index, text in enumerate(ordered)}
        self._shown = {mark: text for text, mark in self._hidden.items()}
        private = f"[{chr(_BASE)}-{escape}]"
        self._escape = escape
        self._unsafe = re.compile(f"{self.special.pattern}|{private}")
        self._marks = re.compile(f"({escape}.|{private})", re.DOTALL)

    def hide(self, value: Any) -> Any:
        """The same text, or JSON-like value, with every text in it made safe."""
        if isinstance(value, str):
            return self._unsafe.sub(self._replace, value)
        if isinstance(value, Mapping):
            return {self.hide(key): self.hide(item) for key, item in value.items()}
        if isinstance(value, Sequence):
            return [self.hide(item) for item in value]
        return value

    def pieces(self, text: str) -> Iterator[str]:
        """The rendered text in pieces to encode one by one; one piece where nothing was hidden."""
        for piece in self._marks.split(text):
            if piece in self._shown:
                yield self._shown[piece][0]
                yield self._shown[piece][1:]
            elif piece:
                yield piece[1:] if piece[0] == self._escape else piece

    def _replace(self, found: re.Match[str]) -> str:
        return self._hidden.get(found.group()) or self._escape + found.group()
