"""What a judge answered: found however it is wrapped, and then taken at its word or refused.

Tolerant in form: thinking before it, code fences, prose around it, trailing commas, single quotes, a score in quotes. Strict in meaning: every
id exactly once, no other, each with a finite score from 0 to 1. A reply that was cut off is refused, whatever could be read into it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from art_core.errors import JudgeError

from .json_reply import json_in, short

__all__ = ["Score", "read_scores", "reply_schema"]

_ID = ("trajectory_id", "id", "trajectory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What a judge thinks of one attempt."""

    value: float
    explanation: str = ""


def read_scores(text: str, ids: Collection[str]) -> dict[str, Score]:
    """The score of each of ``ids``.

    Raises:
        JudgeError: the reply cannot be used; in words that the judge can be told.

    >>> read_scores('Here: {"scores": [{"trajectory_id": "b", "explanation": "Right.", "score": "0.9"},]}', ["b"])["b"].value
    0.9
    """
    found: dict[str, Score] = {}
    for entry in _entries(json_in(text, _is_scores)):
        if not isinstance(entry, Mapping):
            raise JudgeError(f"an entry of scores is {short(entry)}, not an object")
        name = _id_of(entry)
        if name not in ids:
            raise JudgeError(f"there is no attempt {name!r}; the ids are {', '.join(ids)}")
        if name in found:
            raise JudgeError(f"attempt {name!r} is scored twice")
        found[name] = Score(value=_value(entry, name), explanation=str(entry.get("explanation") or ""))
    missing = [name for name in ids if name not in found]
    if missing:
        raise JudgeError(f"no score for {', '.join(missing)}; every one of {', '.join(ids)} needs one")
    return found


def reply_schema(ids: Collection[str]) -> dict[str, Any]:
    """The JSON Schema of a reply, for judges that can be held to one."""
    entry = {
        "type": "object",
        "properties": {
            "trajectory_id": {"type": "string", "enum": list(ids)},
            "explanation": {"type": "string"},
            "score": {"type": "number"},
        },
        "required": ["trajectory_id", "explanation", "score"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"scores": {"type": "array", "items": entry}},
        "required": ["scores"],
        "additionalProperties": False,
    }


def _is_scores(value: Any) -> bool:
    entries = value.get("scores") if isinstance(value, Mapping) else value
    return isinstance(entries, list | Mapping) and bool(entries)


def _entries(value: Any) -> list[Any]:
    """The entries of ``{"scores": [...]}``, of a bare list, of one bare entry, or of a mapping of ids to scores."""
    scores = value.get("scores", value) if isinstance(value, Mapping) else value
    if isinstance(scores, list):
        return scores
    if not isinstance(scores, Mapping):
        raise JudgeError(f"scores is {short(scores)}, not a list")
    if any(key in scores for key in _ID):
        return [scores]
    return [
        {"trajectory_id": name, **(given if isinstance(given, Mapping) else {"score": given})}
        for name, given in scores.items()
    ]


def _id_of(entry: Mapping[str, Any]) -> str:
    for key in _ID:
        if key in entry:
            return str(entry[key]).strip()
    raise JudgeError(f"an entry of scores has no trajectory_id: {short(entry)}")


def _value(entry: Mapping[str, Any], name: str) -> float:
    if "score" not in entry:
        raise JudgeError(f"attempt {name!r} has no score")
    given = entry["score"]
    try:
        number = float(given) if isinstance(given, int | float | str) and not isinstance(given, bool) else math.nan
    except ValueError:
        number = math.nan
    if not 0.0 <= number <= 1.0:
        raise JudgeError(f"the score of {name!r} is {short(given)}; it must be a number from 0 to 1")
    return number
