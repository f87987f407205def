"""Names into words, tool descriptions into requests, and the small vocabularies that made-up values are drawn from."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from art_core.messages import ToolSpec

__all__ = [
    "ADJECTIVES",
    "CODES",
    "NOUNS",
    "PEOPLE",
    "SENTENCES",
    "imperative",
    "join",
    "literal_phrase",
    "lower_first",
    "split_name",
    "upper_first",
    "use_by_name",
]

PEOPLE = ("Ada", "Bruno", "Chen", "Dalia", "Elena", "Farid", "Grace", "Hugo", "Ingrid", "Jonas", "Kemal", "Lucia")
ADJECTIVES = ("amber", "bright", "calm", "distant", "early", "gentle", "hidden", "narrow", "quiet", "rapid", "silver")
NOUNS = ("bridge", "candle", "engine", "garden", "harbor", "island", "lantern", "market", "meadow", "orchard", "river")
SENTENCES = (
    "the parcel arrives on {day}",
    "lunch is moved to {day}",
    "{person} waters the plants on {day}",
    "{person} likes green tea",
    "the {noun} needs repair",
    "{person} found the {adjective} {noun}",
    "remember to call {person}",
    "the {adjective} {noun} is closed on {day}",
    "{person} reads about the {noun}",
    "buy paint for the {noun}",
)
CODES = {
    "currency": {
        "US dollar": "USD", "euro": "EUR", "Japanese yen": "JPY", "British pound": "GBP", "Swiss franc": "CHF",
        "Indian rupee": "INR", "Canadian dollar": "CAD", "Australian dollar": "AUD", "Mexican peso": "MXN",
        "Swedish krona": "SEK",
    },
    "country": {
        "Japan": "JP", "France": "FR", "Germany": "DE", "Italy": "IT", "Brazil": "BR", "Canada": "CA", "India": "IN",
        "Spain": "ES", "Norway": "NO", "Kenya": "KE", "Egypt": "EG", "Mexico": "MX",
    },
    "language": {
        "English": "en", "French": "fr", "German": "de", "Spanish": "es", "Italian": "it", "Portuguese": "pt",
        "Japanese": "ja", "Dutch": "nl", "Swedish": "sv", "Polish": "pl", "Turkish": "tr",
    },
}  # fmt: skip
"""Kind of code -> what people say -> the code (ISO 4217, ISO 3166, ISO 639)."""

_VERB_LIST = (
    "add analyze append apply archive ask assign attach build calculate call cancel change check checkout clear click "
    "clone close commit compare compute convert copy count create delete deploy describe detect disable display "
    "download draw echo edit enable evaluate execute explain export extract fetch fill filter find format generate get "
    "give grep identify import index initialize insert inspect install invite join launch list load locate log look "
    "lookup make mark merge modify monitor move open parse pause perform ping play post predict print process provide "
    "publish pull push put query read record reload remove rename render replace reply report request reset resolve "
    "restart restore retrieve return revert run save scan schedule search select send set share show sort start stop "
    "store submit subscribe summarize switch take tell test toggle track transform translate trigger turn undo unlock "
    "update upload validate verify view wait watch write"
)
_VERBS = frozenset(_VERB_LIST.split())
_DETERMINERS = frozenset({"a", "an", "the", "all", "any", "one", "some", "your", "given", "specific"})
_NO_VERBS = frozenset({"this", "is", "has", "was", "does"})
_LONGEST = 110


def split_name(name: str) -> list[str]:
    """The lower-case words of an identifier.

    >>> split_name("sourceTimezone"), split_name("read_text-file")
    (['source', 'timezone'], ['read', 'text', 'file'])
    """
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    return [word.lower() for word in re.split(r"[^\w]+|_+", spaced) if word]


def join(parts: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""


def literal_phrase(value: Any) -> str:
    """A plain value as a request says it: text in quotes, everything else as JSON."""
    if isinstance(value, str):
        return f'"{value}"' if '"' not in value else f"'{value}'" if "'" not in value else f"`{value}`"
    return json.dumps(value, ensure_ascii=False)


def upper_first(text: str) -> str:
    return text[:1].upper() + text[1:]


def lower_first(text: str) -> str:
    """The text with a small first letter, unless its first word is an acronym or a name such as ``SQL``."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def imperative(tool: ToolSpec) -> str:
    """What the tool does, as an order: from the first sentence of its description where that is one, else from its name.

    >>> imperative(ToolSpec(name="get_sum", description="Returns the sum of two numbers. Both are needed."))
    'Return the sum of two numbers'
    """
    name = split_name(tool.name)
    sentence = re.split(r"(?<=[.!?])\s|\n|:\s|\.$", tool.description.strip(), maxsplit=1)[0].strip(" .`*#")
    first, _, rest = sentence.partition(" ")
    verb = _base_form(first.lower().partition("/")[0], rest.lower().partition(" ")[0], name)
    if verb and rest and len(sentence) <= _LONGEST:
        return f"{upper_first(verb)} {rest}"
    if name and name[0] in _VERBS and len(name) > 1:
        return upper_first(" ".join(name))
    return use_by_name(tool)


def use_by_name(tool: ToolSpec) -> str:
    """The order to use the tool, by the words of its name.

    >>> use_by_name(ToolSpec(name="ReverseGeocodeTool"))
    'Use the reverse geocode tool'
    """
    words = split_name(tool.name)
    return f"Use the {' '.join(words[:-1] if words[-1:] == ['tool'] and len(words) > 1 else words) or tool.name} tool"


def _base_form(word: str, following: str, name: Sequence[str]) -> str | None:
    """The verb a description begins with, without the s of the third person; None if it does not begin with one."""
    known = _VERBS | set(name[:1])
    candidates = [word]
    if word.endswith("s"):
        candidates += [word[:-1], word[:-2] if word.endswith("es") else "", f"{word[:-3]}y"]
    found = next((candidate for candidate in candidates if candidate in known), None)
    unknown_verb = word.endswith("s") and not word.endswith("ss") and following in _DETERMINERS
    return found or (word[:-1] if unknown_verb and word not in _NO_VERBS else None)
