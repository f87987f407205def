"""Any Python value as strict JSON, and back.

Plain JSON values stay as they are. What JSON lacks is an object with one ``$`` key: ``{"$float": "nan"}``,
``{"$tuple": [...]}``, ``{"$bytes": "base64"}``, ``{"$map": [[key, value], ...]}``. A record (a
dataclass, a pydantic model) comes back as the dict of its fields, a value of any other type as its text, ``{"$repr": "..."}``.
"""

from __future__ import annotations

import base64
import dataclasses
import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from art_core.errors import InputError, describe

__all__ = ["pack", "unpack"]

_SINGLE = frozenset({"$float", "$tuple", "$bytes", "$map", "$repr"})


def pack(value: Any) -> Any:
    """``value`` in terms of strict JSON (no NaN, text keys only). Never raises."""
    try:
        return _pack(value)
    except RecursionError as error:  # it holds itself
        return {"$repr": _text(value, error)}


def _pack(value: Any) -> Any:
    if value is None or isinstance(value, bool | str):
        return value if value is None or isinstance(value, bool) else str.__str__(value)
    if isinstance(value, Real):
        return _number(value)
    if isinstance(value, list):
        return [_pack(item) for item in value]
    if isinstance(value, tuple):
        return {"$tuple": [_pack(item) for item in value]}
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    if isinstance(value, Mapping):
        return _mapping(value)
    return _foreign(value)


def _number(value: Real) -> Any:
    if isinstance(value, Integral):
        return int(value)
    number = float(value)
    return number if math.isfinite(number) else {"$float": repr(number)}


def _mapping(value: Mapping[Any, Any]) -> dict[str, Any]:
    if all(type(key) is str for key in value) and not (len(value) == 1 and _SINGLE & value.keys()):
        return {key: _pack(item) for key, item in value.items()}
    return {"$map": [[_pack(key), _pack(item)] for key, item in value.items()]}


def _foreign(value: Any) -> Any:
    try:
        if not isinstance(value, type):
            if callable(dump := getattr(value, "model_dump", None)):
                return _pack(dump(mode="json"))
            if dataclasses.is_dataclass(value):
                return _pack({item.name: getattr(value, item.name) for item in dataclasses.fields(value)})
        return {"$repr": repr(value)}
    except RecursionError:
        raise
    except Exception as error:  # noqa: BLE001 - what a foreign object does when looked at must not cost the record
        return {"$repr": _text(value, error)}


def unpack(value: Any) -> Any:
    """What ``pack`` made, as it was.

    Raises:
        InputError: a ``$`` object of an unknown form.
    """
    if isinstance(value, list):
        return [unpack(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1 or not _SINGLE & value.keys():
        return {key: unpack(item) for key, item in value.items()}
    ((kind, inner),) = value.items()
    try:
        return _SPECIAL[kind](inner)
    except (TypeError, ValueError) as error:
        raise InputError(f"a stored value of kind {kind} cannot be read: {inner!r}") from error


_SPECIAL: dict[str, Any] = {
    "$float": float,
    "$tuple": lambda inner: tuple(unpack(item) for item in inner),
    "$bytes": base64.b64decode,
    "$map": lambda inner: {unpack(key): unpack(item) for key, item in inner},
    "$repr": str,
}


def _text(value: Any, error: Exception) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - the error that brought us here is told instead
        return f"<{type(value).__name__} that cannot be stored: {describe(error)}>"
