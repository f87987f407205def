"""Plausible numbers within the bounds a schema sets, or those its parameter's name suggests."""

from __future__ import annotations

import math
import random

from .kinds import Field
from .schema import NoValue, Schema, schema_type

__all__ = ["draw_number"]

_RANGES: tuple[tuple[frozenset[str], tuple[float, float]], ...] = (
    (frozenset({"latitude", "lat"}), (-60, 60)),
    (frozenset({"longitude", "lon", "lng"}), (-180, 180)),
    (frozenset({"year"}), (1990, 2030)),
    (frozenset({"month"}), (1, 12)),
    (frozenset({"day"}), (1, 28)),
    (frozenset({"hour", "hours"}), (0, 23)),
    (frozenset({"port"}), (1024, 9999)),
    (frozenset({"percent", "percentage"}), (1, 100)),
    (frozenset({"adults", "children", "infants", "guests", "pets", "rooms", "people", "nights"}), (1, 5)),
    (frozenset({"page", "steps", "duration", "seconds", "depth", "timeout"}), (1, 5)),
    (frozenset({"limit", "count", "top", "size", "max", "results", "lines"}), (2, 30)),
)
_COUNTED = frozenset({"count", "limit", "number", "lines", "integer", "id", "page", "steps", "max", "size", "year"})
_WHOLE_SHARE = 0.7
_WIDE = 10_000
"""Bounds further apart than this are limits, not a range to draw from."""


def draw_number(schema: Schema, field: Field, random_: random.Random) -> int | float:
    """A number of the schema's type between its bounds, a multiple of ``multipleOf`` where it asks for one.

    Raises:
        NoValue: no number lies between the bounds.
    """
    low, high = _bounds(schema, field)
    step = schema.get("multipleOf")
    if schema_type(schema) == "number" and step is None:
        value = round(random_.uniform(low, high), 1)
        if math.ceil(low) <= high and (_counts(field) or random_.random() < _WHOLE_SHARE):
            return random_.randint(math.ceil(low), math.floor(high))
        value = min(max(value, low), high)
        return int(value) if float(value).is_integer() else value
    unit = step or 1
    first, last = math.ceil(low / unit), math.floor(high / unit)
    if first > last:
        raise NoValue(f"no number lies between {low:g} and {high:g}")
    number = random_.randint(first, last) * unit
    return int(number) if float(number).is_integer() else number


def _counts(field: Field) -> bool:
    return bool(_COUNTED & {*field.words, *field.text.split()})


def _bounds(schema: Schema, field: Field) -> tuple[float, float]:
    low: float | None
    high: float | None
    edge = 1 if schema_type(schema) == "integer" else 0.1
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if isinstance(above, int | float) and not isinstance(above, bool):
        low = above + edge if low is None else max(low, above + edge)
    if isinstance(below, int | float) and not isinstance(below, bool):
        high = below - edge if high is None else min(high, below - edge)
    usual = next((bounds for names, bounds in _RANGES if names & set(field.words)), (1.0, 99.0))
    spread = usual[1] - usual[0]
    if low is None and high is not None:
        return (usual[0] if usual[0] <= high else high - spread), min(usual[1], high)
    if low is None:
        return usual
    if high is None or high - low > _WIDE:
        top = usual[1] if usual[1] > low else low + spread
        return max(usual[0], low), top if high is None else min(top, high)
    return low, high
