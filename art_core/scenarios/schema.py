"""Reading JSON Schemas as servers send them: references resolved, alternatives opened, arguments validated.

Nothing is ever fetched: a reference that leaves the schema is a ``NoValue``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jsonschema import SchemaError
from jsonschema.protocols import Validator
from jsonschema.validators import Draft202012Validator, validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from art_core.errors import InputError

__all__ = ["NoValue", "Schema", "branches", "schema_type", "valid", "validator"]

Schema = Mapping[str, Any]
_DEEPEST_REF = 16


class NoValue(InputError):
    """No meaningful value can be made for a schema; the message says why."""


def validator(schema: Schema) -> Validator:
    """A validator of the dialect the schema declares (2020-12 if none) that never goes to the network.

    Raises:
        NoValue: the schema itself is not valid.
    """
    kind = validator_for(dict(schema), default=Draft202012Validator)
    try:
        kind.check_schema(dict(schema))
    except SchemaError as error:
        raise NoValue(f"its input schema is not valid: {error.message}") from error
    checked: Validator = kind(dict(schema), registry=Registry(), format_checker=kind.FORMAT_CHECKER)
    return checked


def valid(checker: Validator, value: Any) -> bool:
    """Whether the value fits.

    Raises:
        NoValue: the schema refers to something outside itself.
    """
    try:
        return bool(checker.is_valid(value))
    except Unresolvable as error:
        raise NoValue(f"its schema refers to {error.ref!r}, which it does not contain") from error


def branches(schema: Any, root: Schema) -> list[dict[str, Any]]:
    """The plain schemas a value may follow: ``$ref`` resolved, ``allOf`` merged, ``anyOf``/``oneOf`` and type lists opened.

    ``null`` alternatives are left out.

    Raises:
        NoValue: a reference that does not resolve or never ends.
    """
    return [found for found in _open(schema, root, 0) if schema_type(found) != "null"]


def _open(schema: Any, root: Schema, depth: int) -> list[dict[str, Any]]:
    if schema is True:
        return [{}]
    if not isinstance(schema, Mapping):
        return []
    plain = dict(schema)
    if "$ref" in plain:
        if depth > _DEEPEST_REF:
            raise NoValue(f"its schema's reference {plain['$ref']!r} never ends")
        target = _resolve(str(plain.pop("$ref")), root)
        return [_merge(found, plain) for found in _open(target, root, depth + 1)]
    for part in plain.pop("allOf", ()):
        opened = _open(part, root, depth + 1)
        plain = _merge(opened[0] if opened else {}, plain)
    for key in ("anyOf", "oneOf"):
        if key in plain:
            options = plain.pop(key)
            return [_merge(found, plain) for option in options for found in _open(option, root, depth + 1)]
    if isinstance(plain.get("type"), list):
        return [{**plain, "type": kind} for kind in plain["type"]]
    return [plain]


def _merge(base: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    merged = {**base, **more}
    if "properties" in base and "properties" in more:
        merged["properties"] = {**base["properties"], **more["properties"]}
    if "required" in base and "required" in more:
        merged["required"] = [*base["required"], *(name for name in more["required"] if name not in base["required"])]
    return merged


def _resolve(ref: str, root: Schema) -> Any:
    found: Any = root
    if ref != "#" and not ref.startswith("#/"):
        raise NoValue(f"its schema refers to {ref!r}, which it does not contain")
    for part in ref[2:].split("/") if ref != "#" else []:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and key in found:
            found = found[key]
        elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        else:
            raise NoValue(f"its schema refers to {ref!r}, which it does not contain")
    return found


def schema_type(schema: Schema) -> str | None:
    """The JSON type a plain schema asks for, inferred from its other keywords where it does not say; None if anything goes."""
    if isinstance(schema.get("type"), str):
        return str(schema["type"])
    for key, kind in (("properties", "object"), ("items", "array"), ("pattern", "string"), ("format", "string")):
        if key in schema:
            return kind
    return "number" if "minimum" in schema or "maximum" in schema else None
