"""Text to token ids and back: what rendering needs of a tokenizer, a byte-level one in pure Python, and Hugging Face's.

``encode`` adds nothing: a BOS is there exactly where the chat template writes one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from art_core.errors import InputError

from .templates import CHATML

__all__ = ["BytesTokenizer", "ChatTokenizer", "TransformersTokenizer"]


@runtime_checkable
class ChatTokenizer(Protocol):
    """What a Renderer needs of a tokenizer."""

    @property
    def chat_template(self) -> str:
        """The model's own Jinja source."""
        ...

    @property
    def special_tokens(self) -> Mapping[str, str]:
        """The variables the template may name: ``bos_token``, ``eos_token`` ..."""
        ...

    @property
    def special_texts(self) -> frozenset[str]:
        """The texts that ``encode`` turns into control tokens."""
        ...

    @property
    def stop_ids(self) -> frozenset[int]:
        """The ids the model's own configuration says end a reply; a Renderer adds the template's end-of-turn."""
        ...

    @property
    def vocab_size(self) -> int: ...

    def encode(self, text: str) -> list[int]:
        """Ids of a text: control tokens recognised, nothing added."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids: control tokens kept, nothing cleaned up."""
        ...


class BytesTokenizer:
    """UTF-8 bytes as ids 0-255, then three control tokens. Needs no model and no other package.

    >>> tokenizer = BytesTokenizer()
    >>> tokenizer.encode("hé<|im_end|>")
    [104, 195, 169, 257]
    """

    _CONTROL = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")

    def __init__(self, chat_template: str = CHATML) -> None:
        self.chat_template = chat_template
        self.special_tokens: Mapping[str, str] = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
        self.special_texts = frozenset(self._CONTROL)
        self.stop_ids = frozenset({257})
        self.vocab_size = 256 + len(self._CONTROL)
        self._ids = {text: 256 + index for index, text in enumerate(self._CONTROL)}
        self._split = re.compile("(" + "|".join(map(re.escape, self._CONTROL)) + ")")

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for piece in self._split.split(text):
            if piece in self._ids:
                ids.append(self._ids[piece])
            else:
                ids.extend(piece.encode("utf-8", errors="replace"))
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        raw = b"".join(bytes((i,)) if i < 256 else self._CONTROL[i - 256].encode() for i in ids)
        return raw.decode("utf-8", errors="replace")


class TransformersTokenizer:
    """A Hugging Face tokenizer.

    ``stop_ids`` are end ids beyond the tokenizer's own, such as those of the model's generation configuration;
    ``chat_template`` replaces the tokenizer's.

    Raises:
        InputError: there is no chat template.
    """

    def __init__(self, tokenizer: Any, *, stop_ids: Iterable[int] = (), chat_template: str | None = None) -> None:
        self.tokenizer = tokenizer
        self.chat_template = chat_template or _own_template(tokenizer)
        self.special_tokens: Mapping[str, str] = {
            name: str(value) for name, value in tokenizer.special_tokens_map.items() if isinstance(value, str)
        }
        added = tokenizer.added_tokens_decoder.values()
        self.special_texts = frozenset(
            text for text in [*map(str, tokenizer.all_special_tokens), *(t.content for t in added if t.special)] if text
        )
        own = tokenizer.eos_token_id
        self.stop_ids = frozenset(stop_ids) | (frozenset() if own is None else frozenset({own}))
        self.vocab_size = len(tokenizer)

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def decode(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))


def _own_template(tokenizer: Any) -> str:
    template = tokenizer.chat_template
    if isinstance(template, Mapping):
        template = template.get("tool_use") or template.get("default")
    if not template:
        name = getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__
        raise InputError(f"tokenizer {name!r} has no chat template; give one as chat_template=, such as CHATML")
    return str(template)
