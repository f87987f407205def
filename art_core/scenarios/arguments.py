"""Draws the arguments of one call from a tool's schema, each leaf with the words a request says it with.

Required parameters are always given, optional ones sometimes. What is drawn is plausible, not proven valid: the
caller checks the object against the schema.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from art_core.messages import ToolSpec, canonical_json

from .kinds import Field, Value, kind_of
from .numbers import draw_number
from .patterns import draw_pattern
from .schema import NoValue, Schema, branches, schema_type
from .words import join, literal_phrase, split_name

__all__ = ["Argument", "Hints", "draw_arguments"]

Hints = Mapping[str, Sequence[Any]]
"""Parameter name, or ``tool.parameter``, -> the values that make sense for it."""

_OPTIONAL_SHARE = 0.3
_MOST_OPTIONAL = 2
_DEEPEST = 5
_SECRET = frozenset({"password", "secret", "token", "apikey", "api_key", "credentials", "passphrase"})
_OPAQUE = frozenset({"cursor", "page_token", "continuation_token"})


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of the call."""

    name: str
    label: str
    """The name in words."""
    value: Value


@dataclass(frozen=True, slots=True)
class _Drawing:
    tool: ToolSpec
    root: Schema
    hints: Hints
    random: random.Random


def draw_arguments(tool: ToolSpec, hints: Hints, random_: random.Random) -> list[Argument]:
    """The arguments of one call, in the schema's order.

    Raises:
        NoValue: a required parameter has no meaningful value; the message names it.
    """
    opened = branches(tool.parameters, tool.parameters)
    objects = [schema for schema in opened if schema_type(schema) in ("object", None)]
    if not objects:
        raise NoValue("its input schema is not an object")
    drawing = _Drawing(tool, tool.parameters, hints, random_)
    return _members(random_.choice(objects), drawing, 0)


def _members(schema: Schema, drawing: _Drawing, depth: int) -> list[Argument]:
    properties: Mapping[str, Any] = schema.get("properties") or {}
    required = set(schema.get("required") or ())
    unknown = sorted(required - set(properties))
    if unknown:
        raise NoValue(f"parameter {unknown[0]!r} is required but not described")
    optional = [name for name in properties if name not in required and drawing.random.random() < _OPTIONAL_SHARE]
    wanted = required | set(optional[:_MOST_OPTIONAL])
    members: list[Argument] = []
    for name, part in properties.items():
        if name not in wanted:
            continue
        try:
            members.append(_member(name, part, members, drawing, depth))
        except NoValue as error:
            if name in required:
                raise NoValue(
                    f"parameter {name!r}: {error}" if "parameter" not in str(error) else str(error)
                ) from error
    return members


def _member(name: str, schema: Any, before: Sequence[Argument], drawing: _Drawing, depth: int) -> Argument:
    """A value that differs from those of the other parameters of its kind and from the schema's default."""
    label = " ".join(split_name(name)) or name
    default = schema.get("default") if isinstance(schema, Mapping) else None
    for _ in range(20):
        value = _draw(name, schema, drawing, depth)
        if value.literal != default and not any(_clashes(value, other.value) for other in before):
            break
    return Argument(name, label, value)


def _clashes(value: Value, other: Value) -> bool:
    plain_text = isinstance(value.literal, str) and len(value.literal) > 1
    return (bool(value.kind) or plain_text) and value.literal == other.literal


def _draw(name: str, schema: Any, drawing: _Drawing, depth: int) -> Value:
    if depth > _DEEPEST:
        raise NoValue("its schema nests too deeply")
    hinted = drawing.hints.get(f"{drawing.tool.name}.{name}") or drawing.hints.get(name)
    options = branches(schema, drawing.root)
    if not options:
        raise NoValue("nothing but null is allowed")
    if hinted and not any(schema_type(option) == "array" for option in options):
        return _plain(drawing.random.choice(list(hinted)))
    words = split_name(name)
    if words and ("_".join(words[-2:]) in _SECRET or words[-1] in _SECRET) and schema_type(options[0]) == "string":
        raise NoValue("it is a secret, which no request can carry; give test values as a hint")
    if "_".join(words[-2:]) in _OPAQUE or (words and words[-1] in _OPAQUE):
        raise NoValue("its value comes out of an earlier answer")
    return _draw_plain(name, drawing.random.choice(_without_spellings(options)), drawing, depth)


def _without_spellings(options: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without the text alternatives of a number or boolean: they are other spellings of the same value."""
    types = {schema_type(option) for option in options}
    if "string" in types and types & {"boolean", "integer", "number"}:
        return [option for option in options if schema_type(option) != "string"]
    return options


def _draw_plain(name: str, schema: dict[str, Any], drawing: _Drawing, depth: int) -> Value:
    if "const" in schema:
        return _plain(schema["const"])
    if schema.get("enum"):
        return _plain(drawing.random.choice([option for option in schema["enum"] if option is not None]))
    kind = schema_type(schema)
    if kind == "string":
        return _text(name, schema, drawing)
    if kind in ("integer", "number"):
        return _plain(draw_number(schema, _field(name, schema, drawing.tool), drawing.random))
    if kind == "boolean":
        return _plain(drawing.random.random() < 0.5)
    if kind == "array":
        return _array(name, schema, drawing, depth)
    if schema.get("examples"):
        return _plain(drawing.random.choice(schema["examples"]))
    if kind == "object":
        return _object(name, schema, drawing, depth)
    raise NoValue("its schema does not say what it is")


def _field(name: str, schema: Schema, tool: ToolSpec) -> Field:
    text = f"{schema.get('title') or ''} {schema.get('description') or ''}".lower()
    return Field(
        words=tuple(split_name(name)),
        text=text,
        format=str(schema.get("format") or ""),
        about=f"{' '.join(split_name(tool.name))}: {tool.description.lower()}",
    )


def _text(name: str, schema: Schema, drawing: _Drawing) -> Value:
    random_ = drawing.random
    field = _field(name, schema, drawing.tool)
    if schema.get("pattern"):
        return _patterned(schema, field, random_)
    kind = kind_of(field)
    known = list(schema.get("examples") or ()) or _named_values(str(schema.get("description") or ""))
    if known and not kind.trusted:
        return _plain(random_.choice(known))
    return _fit(replace(kind.draw(random_, field), kind=kind.name), schema)


def _patterned(schema: Schema, field: Field, random_: random.Random) -> Value:
    pattern = re.compile(str(schema["pattern"]))
    for _ in range(5):
        value = kind_of(field).draw(random_, field)
        if pattern.search(value.literal):
            return _fit(value, schema)
    return _plain(draw_pattern(str(schema["pattern"]), random_))


def _fit(value: Value, schema: Schema) -> Value:
    """The value cut to ``maxLength`` or repeated up to ``minLength``."""
    text = value.literal
    shortest, longest = int(schema.get("minLength") or 0), schema.get("maxLength")
    if longest is not None and len(text) > int(longest):
        return _plain(text[: int(longest)].strip())
    if len(text) < shortest:
        return _plain(" ".join([text] * (shortest // len(text) + 1)))
    return value


_CHOICES = re.compile(r"(?:one of|either|allowed values?|possible values?|options?)\b[:\s(]*([^.;)]+)", re.IGNORECASE)
_EXAMPLES = re.compile(r"(?:e\.g\.?,?|for example,?|examples?:|such as)\s*([^;)\n]+)", re.IGNORECASE)
_QUOTED = re.compile(r"(?<!\w)'([^']+)'(?!\w)|\"([^\"]+)\"|`([^`]+)`")


def _named_values(description: str) -> list[str]:
    """The values a description gives in quotes: its list of choices, else its examples."""
    for pattern in (_CHOICES, _EXAMPLES):
        found = pattern.search(description)
        if found:
            values = _quoted(found.group(1))
            if values:
                return values
    values = _quoted(description)
    return values if len(values) > 1 else []


def _quoted(text: str) -> list[str]:
    return ["".join(groups) for groups in _QUOTED.findall(text)]


def _array(name: str, schema: Schema, drawing: _Drawing, depth: int) -> Value:
    fewest, most = int(schema.get("minItems") or 0), int(schema.get("maxItems") or 3)
    size = drawing.random.randint(max(fewest, 1), max(min(most, 3), fewest, 1))
    fixed = list(schema.get("prefixItems") or ())
    item = schema.get("items", True if not fixed else None)
    if item is True or item == {}:
        item = {"type": "string"}
    inner = _without_array_hint(name, drawing)
    values: list[Value] = []
    for part in fixed or [item] * size:
        value = _another(_singular(name), part, values, inner, depth + 1)
        if value is not None:
            values.append(value)
        elif fixed or len(values) < fewest:
            raise NoValue(f"there are too few different values for its {fewest or len(fixed)} items")
    said = join([value.phrase for value in values])
    return Value(literal=[value.literal for value in values], phrase=said, mapped=any(v.mapped for v in values))


def _another(name: str, schema: Any, before: Sequence[Value], drawing: _Drawing, depth: int) -> Value | None:
    """A value unlike those before; None if none is found."""
    taken = {canonical_json(value.literal) for value in before}
    drawn = (_draw(name, schema, drawing, depth) for _ in range(20))
    return next((value for value in drawn if canonical_json(value.literal) not in taken), None)


def _without_array_hint(name: str, drawing: _Drawing) -> _Drawing:
    """Hints of an array are hints for its items."""
    hinted = drawing.hints.get(f"{drawing.tool.name}.{name}") or drawing.hints.get(name)
    if not hinted:
        return drawing
    return _Drawing(drawing.tool, drawing.root, {**drawing.hints, _singular(name): hinted}, drawing.random)


def _singular(name: str) -> str:
    if name.endswith("ies") and len(name) > 4:
        return f"{name[:-3]}y"
    return name[:-1] if name.endswith("s") and not name.endswith("ss") and len(name) > 3 else name


def _object(name: str, schema: Schema, drawing: _Drawing, depth: int) -> Value:
    if schema.get("properties"):
        members = _members(schema, drawing, depth + 1)
        if not members:
            raise NoValue("its object has no member to give")
        said = f"({', '.join(f'{member.label}: {member.value.phrase}' for member in members)})"
        literal = {member.name: member.value.literal for member in members}
        return Value(literal=literal, phrase=said, mapped=any(member.value.mapped for member in members))
    extra = schema.get("additionalProperties")
    if not isinstance(extra, Mapping) or not extra:
        raise NoValue("it is an object whose members are not described")
    names = drawing.random.sample(("color", "size", "origin", "status", "owner"), drawing.random.randint(1, 2))
    drawn = {key: _draw(key, extra, drawing, depth + 1) for key in names}
    return Value(
        literal={key: value.literal for key, value in drawn.items()},
        phrase=" and ".join(f"{literal_phrase(key)} set to {value.phrase}" for key, value in drawn.items()),
    )


def _plain(literal: Any) -> Value:
    return Value(literal=literal, phrase=_say(literal))


def _say(literal: Any) -> str:
    if isinstance(literal, list) and all(not isinstance(item, list | dict) for item in literal):
        return join([literal_phrase(item) for item in literal]) or "an empty list"
    return literal_phrase(literal)
