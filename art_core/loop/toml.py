"""Writing TOML: the plain values of a configuration record, in a form that ``tomllib`` reads back equal."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from art_core.errors import InputError

__all__ = ["dump_toml"]

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def dump_toml(values: Mapping[str, Any]) -> str:
    """TOML text of nested mappings of strings, numbers, booleans and lists; entries that are None are left out.

    Raises:
        InputError: another kind of value; the message names its key.
    """
    return "\n".join(_lines(values, ())).strip() + "\n"


def _lines(values: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    tables = {key: value for key, value in values.items() if isinstance(value, Mapping)}
    plain = {key: value for key, value in values.items() if key not in tables and value is not None}
    if path and (plain or not tables):
        yield f"\n[{'.'.join(map(_key, path))}]"
    for key, value in plain.items():
        yield f"{_key(key)} = {_value(value, (*path, key))}"
    for key, value in tables.items():
        yield from _lines(value, (*path, key))


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _value(value: Any, path: tuple[str, ...]) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(item, path) for item in value)}]"
    if isinstance(value, Mapping):
        pairs = (f"{_key(key)} = {_value(item, (*path, key))}" for key, item in value.items() if item is not None)
        return f"{{{', '.join(pairs)}}}"
    raise InputError(f"{'.'.join(path)} = {value!r} cannot be written to TOML")


def _float(value: float) -> str:
    if math.isfinite(value):
        text = repr(value)
        return text if "." in text or "e" in text else f"{text}.0"
    return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
