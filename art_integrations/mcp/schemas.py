"""A server's input schema as a chat API wants it: an object schema that stands alone.

``$ref`` into the document is inlined; where that would not end (recursion) or grow too large, the reference and the
definitions it needs stay. Data inside a schema (``default``, ``enum``, ``const``, ``examples``) is never touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

__all__ = ["tool_parameters"]

MAX_NODES = 5_000
_DEFINITIONS = ("$defs", "definitions")
_SCHEMA_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas", *_DEFINITIONS})
_SCHEMAS = frozenset(
    {"items", "additionalItems", "prefixItems", "additionalProperties", "unevaluatedItems", "unevaluatedProperties"}
    | {"contains", "propertyNames", "not", "if", "then", "else", "allOf", "anyOf", "oneOf", "contentSchema"}
)


def tool_parameters(schema: Any) -> dict[str, Any]:
    """The ``parameters`` of a function tool.

    ``type`` and ``properties`` are defaulted, ``$schema`` is stripped, local ``$ref`` are inlined.
    """
    root = dict(schema) if isinstance(schema, Mapping) else {}
    inliner = _Inliner(root)
    try:
        inlined = inliner.schema({key: value for key, value in root.items() if key not in _DEFINITIONS}, ())
    except _TooLarge:
        inlined, inliner.kept = {key: value for key, value in root.items() if key != "$schema"}, True
    if inliner.kept:
        inlined.update({key: root[key] for key in _DEFINITIONS if key in root})
    inlined.setdefault("type", "object")
    if not isinstance(inlined.get("properties"), Mapping):
        inlined["properties"] = {}
    return dict(inlined)


class _TooLarge(Exception):
    pass


class _Inliner:
    def __init__(self, root: dict[str, Any]) -> None:
        self.root = root
        self.kept = False
        self._nodes = 0

    def schema(self, node: Any, open_refs: tuple[str, ...]) -> Any:
        """The schema with references resolved; ``open_refs`` are those being expanded around it."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise _TooLarge
        if isinstance(node, list):
            return [self.schema(item, open_refs) for item in node]
        if not isinstance(node, Mapping):
            return node
        reference = node.get("$ref")
        if isinstance(reference, str):
            target = self._target(reference)
            if target is None or reference in open_refs or reference == "#":
                self.kept = True
                return dict(node)
            beside = {key: value for key, value in node.items() if key != "$ref"}
            merged = {**target, **beside} if isinstance(target, Mapping) else target
            return self.schema(merged, (*open_refs, reference))
        return {key: self._keyword(key, value, open_refs) for key, value in node.items() if key != "$schema"}

    def _keyword(self, key: str, value: Any, open_refs: tuple[str, ...]) -> Any:
        if key in _SCHEMA_MAPS and isinstance(value, Mapping):
            return {name: self.schema(item, open_refs) for name, item in value.items()}
        return self.schema(value, open_refs) if key in _SCHEMAS else value

    def _target(self, reference: str) -> Any:
        """What a JSON pointer in this document points to; None for another document or nothing."""
        if not reference.startswith("#/"):
            return None
        found: Any = self.root
        for part in unquote(reference[2:]).split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping) and name in found:
                found = found[name]
            elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            else:
                return None
        return found
