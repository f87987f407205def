"""The fields of a configuration by their dotted paths, for the tests that walk over all of them."""

from __future__ import annotations

import dataclasses
import typing
from functools import reduce
from typing import Any

from art_core.config import Config


def leaves(kind: Any, prefix: str = "") -> list[str]:
    """The dotted paths of all fields that hold a value, through nested configurations and dataclasses."""
    fields = kind.model_fields if issubclass(kind, Config) else {f.name: f for f in dataclasses.fields(kind)}
    hints = typing.get_type_hints(kind)
    found: list[str] = []
    for name in fields:
        nested = [one for one in (hints[name], *typing.get_args(hints[name])) if _is_record(one)]
        found += [path for one in nested for path in leaves(one, f"{prefix}{name}.")] or [prefix + name]
    return found


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and (issubclass(kind, Config) or dataclasses.is_dataclass(kind))


def with_values(values: dict[str, Any]) -> dict[str, Any]:
    """Nested tables from dotted paths."""
    tables: dict[str, Any] = {}
    for path, value in values.items():
        *parents, name = path.split(".")
        table = tables
        for parent in parents:
            table = table.setdefault(parent, {})
        table[name] = value
    return tables


def flat(config: Config) -> dict[str, Any]:
    """The value at every dotted path; None where a record on the way is not there."""

    def value(record: Any, name: str) -> Any:
        return None if record is None else getattr(record, name)

    return {path: reduce(value, path.split("."), config) for path in leaves(type(config))}
