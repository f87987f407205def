"""Strict, frozen configuration records, and reading them from TOML.

Each part of the product owns its record (a subclass of ``Config``); a field nobody declared is an error that names the
key and the valid ones.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from .errors import InputError

__all__ = ["Config", "read_toml"]

C = TypeVar("C", bound="Config")


class Config(BaseModel):
    """Base of every configuration record: frozen, strict about unknown keys, documented field by field."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)

    @classmethod
    def build(cls, values: Mapping[str, Any] | None = None, /, **more: Any) -> Self:
        """Validate values into a record.

        Raises:
            InputError: one sentence naming the key, its value and what would be valid.
        """
        try:
            return cls.model_validate({**(values or {}), **more})
        except ValidationError as error:
            raise InputError(_sentence(cls, error)) from error

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for TOML or JSON; unset optional fields are left out."""
        return self.model_dump(mode="json", exclude_none=True)


def read_toml(path: Path, kind: type[C]) -> C:
    """A configuration record from a TOML file.

    Raises:
        InputError: the file cannot be read, is not TOML, or holds an unknown or invalid key.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path} is not valid TOML: {error}") from error
    try:
        return kind.build(values)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _sentence(kind: type[BaseModel], error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"unknown option {where!r}; valid ones here: {', '.join(_siblings(kind, first['loc'][:-1]))}"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error" and isinstance(first["input"], Mapping):  # about several keys, which it names
        return f"{where}: {message}" if where else message
    return f"{where or kind.__name__} = {first['input']!r}: {message}"


def _siblings(kind: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    for part in path:
        field = kind.model_fields.get(str(part))
        if field is None or not isinstance(field.annotation, type) or not issubclass(field.annotation, BaseModel):
            break
        kind = field.annotation
    return sorted(kind.model_fields)
