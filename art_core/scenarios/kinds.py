"""What a text parameter is about (a time zone, a date, a path, SQL ...), recognised from format, name and description.

A kind draws a ``Value``: the literal a call needs and the phrase a request says it with. Where the two differ (a city
for a time zone), the value is *mapped*: knowing the literal is the model's part.
"""

from __future__ import annotations

import datetime
import random
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .places import ZONE_OF_CITY, ZONES
from .words import ADJECTIVES, CODES, NOUNS, PEOPLE, SENTENCES, literal_phrase

__all__ = ["Field", "Kind", "Value", "kind_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A value to ask for."""

    literal: Any
    phrase: str
    """How the request says it."""
    kind: str = ""
    """What it is about, such as ``zone`` or ``clock``; empty if plain."""
    mapped: bool = False
    """The phrase does not hold the literal: whoever answers must know how one becomes the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A parameter as the recognisers see it."""

    words: tuple[str, ...]
    """The words of its name."""
    text: str = ""
    """Its title and description, lower case."""
    format: str = ""
    about: str = ""
    """The words of the tool's name and its description, lower case."""

    @property
    def last(self) -> str:
        return self.words[-1] if self.words else ""


_FOLDER = frozenset({"dir", "directory", "directories", "folder", "folders"})
_FILE = frozenset({"file", "files"})
_ZONE_SAID_SHARE = 0.5  # how often a request says the zone's own name instead of a city
_TYPES = ("place", "person", "event", "project", "book", "tool")

Draw = Callable[[random.Random, Field], Value]


@dataclass(frozen=True, slots=True)
class Kind:
    """A recogniser and the values it stands for."""

    name: str
    matches: Callable[[Field], bool]
    draw: Draw
    trusted: bool = True
    """The kind is surer than examples found in the description's prose."""


def kind_of(field: Field) -> Kind:
    """The first kind that recognises the field; a short plain text if none does."""
    return next(kind for kind in _KINDS if kind.matches(field))


def _says(*patterns: str) -> Callable[[Field], bool]:
    found = re.compile("|".join(patterns))
    return lambda field: bool(found.search(field.text))


def _named(*names: str) -> Callable[[Field], bool]:
    return lambda field: field.last in names or "_".join(field.words[-2:]) in names


def _any(*tests: Callable[[Field], bool]) -> Callable[[Field], bool]:
    return lambda field: any(test(field) for test in tests)


def _format(*names: str) -> Callable[[Field], bool]:
    return lambda field: field.format in names


def _quoted(make: Callable[[random.Random], str]) -> Draw:
    def draw(random_: random.Random, field: Field) -> Value:
        text = make(random_)
        return Value(literal=text, phrase=literal_phrase(text))

    return draw


def _zone(random_: random.Random, field: Field) -> Value:
    if random_.random() < _ZONE_SAID_SHARE:
        zone = random_.choice(ZONES)
        return Value(literal=zone, phrase=zone, kind="zone")
    city = random_.choice(sorted(ZONE_OF_CITY))
    return Value(literal=ZONE_OF_CITY[city], phrase=city, kind="zone", mapped=True)


def _clock(random_: random.Random, field: Field) -> Value:
    seconds = ":00" if "hh:mm:ss" in field.text or field.format == "time" else ""
    text = f"{random_.randrange(24):02}:{random_.randrange(0, 60, 5):02}{seconds}"
    return Value(literal=text + ("Z" if field.format == "time" else ""), phrase=text, kind="clock")


def _day(random_: random.Random) -> datetime.date:
    return datetime.date(2026, 1, 1) + datetime.timedelta(days=random_.randrange(730))


def _date(random_: random.Random, field: Field) -> Value:
    day = _day(random_)
    spelled = f"{day.day} {day:%B} {day.year}"
    said = spelled if random_.random() < 0.5 else day.isoformat()
    return Value(literal=day.isoformat(), phrase=said, kind="date", mapped=said == spelled)


def _moment(random_: random.Random, field: Field) -> Value:
    text = f"{_day(random_).isoformat()}T{random_.randrange(24):02}:{random_.randrange(0, 60, 5):02}:00Z"
    return Value(literal=text, phrase=text)


def _code(kind: str) -> Draw:
    def draw(random_: random.Random, field: Field) -> Value:
        said = random_.choice(sorted(CODES[kind]))
        return Value(literal=CODES[kind][said], phrase=said, kind=kind, mapped=True)

    return draw


def _sql(random_: random.Random, field: Field) -> Value:
    words = set(re.findall("[a-z]+", f"{field.text} {field.about}"))
    table, column = f"{random_.choice(NOUNS)}s", random_.choice(("name", "title", "label"))
    if "create" in words:
        text = f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, {column} TEXT)"
    elif words & {"insert", "update", "delete"}:
        text = random_.choice(
            (
                f"INSERT INTO {table} ({column}) VALUES ('{random_.choice(ADJECTIVES)}')",
                f"DELETE FROM {table} WHERE id = {random_.randint(1, 99)}",
                f"UPDATE {table} SET {column} = '{random_.choice(ADJECTIVES)}' WHERE id = {random_.randint(1, 99)}",
            )
        )
    else:
        text = random_.choice(
            (
                f"SELECT {random_.randint(2, 99)} * {random_.randint(2, 99)} AS answer",
                f"SELECT upper('{random_.choice(NOUNS)}')",
                f"SELECT {column} FROM {table} WHERE id = {random_.randint(1, 99)}",
            )
        )
    return Value(literal=text, phrase=literal_phrase(text))


def _expression(random_: random.Random) -> str:
    first, second, third = (random_.randint(2, 99) for _ in range(3))
    return random_.choice((f"{first} + {second} * {third}", f"({first} - {second}) * {third}", f"{first} * {second}"))


def _path(random_: random.Random, field: Field) -> Value:
    folder = bool(_FOLDER & {*field.words, *field.about.partition(":")[0].split()})
    end = "" if folder else random_.choice((".txt", ".md", ".csv"))
    text = f"{random_.choice(NOUNS)}/{random_.choice(ADJECTIVES)}-{random_.choice(NOUNS)}{end}"
    return Value(literal=text, phrase=literal_phrase(text))


def _glob(random_: random.Random, field: Field) -> Value:
    text = (
        f"*{random_.choice(NOUNS)}*" if random_.random() < 0.5 else random_.choice(("*.md", "*.txt", "*.csv", "*.json"))
    )
    return Value(literal=text, phrase=literal_phrase(text))


def _moves_files(field: Field) -> bool:
    about = set(field.about.partition(":")[0].split())
    return field.last in ("source", "destination", "src", "dst", "from", "to") and bool(about & (_FOLDER | _FILE))


def _type(random_: random.Random, field: Field) -> Value:
    text = random_.choice(("knows", "owns", "visits", "repairs") if "relation" in field.words else _TYPES)
    return Value(literal=text, phrase=literal_phrase(text))


def _table(random_: random.Random, field: Field) -> Value:
    text = f"{random_.choice(NOUNS)}s"
    return Value(literal=text, phrase=literal_phrase(text))


def _person(random_: random.Random) -> str:
    return random_.choice(PEOPLE)


def _sentence(random_: random.Random) -> str:
    days = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
    text = random_.choice(SENTENCES).format(
        day=random_.choice(days),
        person=_person(random_),
        noun=random_.choice(NOUNS),
        adjective=random_.choice(ADJECTIVES),
    )
    return text[:1].upper() + text[1:]


def _short(random_: random.Random) -> str:
    return f"{random_.choice(ADJECTIVES)} {random_.choice(NOUNS)}"


def _slug(random_: random.Random) -> str:
    return f"{random_.choice(ADJECTIVES)}-{random_.choice(NOUNS)}"


def _uuid(random_: random.Random) -> str:
    return str(uuid.UUID(int=random_.getrandbits(128), version=4))


def _city(random_: random.Random) -> str:
    return random_.choice(sorted(ZONE_OF_CITY))


_KINDS = (
    Kind("zone", _any(_named("timezone", "tz", "time_zone", "timezone_name"), _says(r"\biana\b")), _zone),
    Kind("uuid", _format("uuid"), _quoted(_uuid)),
    Kind("email", _any(_format("email", "idn-email"), _named("email", "mail")),
         _quoted(lambda r: f"{_person(r).lower()}@{r.choice(NOUNS)}.example")),
    Kind("url", _any(_format("uri", "iri", "uri-reference", "url"), _named("url", "uri", "link", "href")),
         _quoted(lambda r: f"https://{r.choice(NOUNS)}.example/{_slug(r)}")),
    Kind("host", _any(_format("hostname", "idn-hostname"), _named("host", "hostname", "domain")),
         _quoted(lambda r: f"{r.choice(NOUNS)}.example")),
    Kind("ipv4", _any(_format("ipv4"), _named("ip", "ip_address")), _quoted(lambda r: f"192.0.2.{r.randint(1, 254)}")),
    Kind("ipv6", _format("ipv6"), _quoted(lambda r: f"2001:db8::{r.randint(1, 9999):x}")),
    Kind("moment", _any(_format("date-time"), _named("timestamp", "datetime")), _moment),
    Kind("date", _any(_format("date"), _named("date"), _says("yyyy-mm-dd", r"\b\d{4}-\d{2}-\d{2}\b")), _date),
    Kind("clock", _any(_format("time"), _says(r"\bhh:mm\b"), lambda f: f.words in (("time",), ("clock",))), _clock),
    Kind("duration", _format("duration"), _quoted(lambda r: f"PT{r.randint(1, 59)}M")),
    Kind("currency", _any(_named("currency", "currency_code"), _says("iso 4217", r"\bcurrency code")), _code("currency")),
    Kind("country", _any(_named("country_code"), _says("iso 3166", r"\bcountry code")), _code("country")),
    Kind("language", _any(_named("language_code", "lang"), _says("iso 639", r"\blanguage code")), _code("language")),
    Kind("sql", _any(_says(r"\bsql\b"), _named("sql")), _sql),
    Kind("expression", _any(_named("expression", "formula"), _says("mathematical expression")), _quoted(_expression)),
    Kind("table", _named("table", "table_name"), _table),
    Kind("path", _any(_named("path", "paths", "file", "files", "filepath", "filename", "file_name", "dir", "directory",
                             "folder", "cwd", "repo", "repository"), _says("path to"), _moves_files), _path, trusted=False),
    Kind("pattern", _named("pattern", "glob", "patterns"), _glob, trusted=False),
    Kind("type", _named("type", "kind", "category"), _type, trusted=False),
    Kind("sha", _any(_named("sha", "commit", "commit_hash"), _says(r"\bsha\b")),
         _quoted(lambda r: f"{r.getrandbits(28):07x}"), trusted=False),
    Kind("city", _named("city", "location", "place", "city_name"), _quoted(_city), trusted=False),
    Kind("person", _named("author", "user", "username", "owner", "assignee", "person", "first_name", "user_name"),
         _quoted(_person), trusted=False),
    Kind("slug", _any(_says(r"\bbranch\b"), _named("id", "key", "slug", "branch", "branch_name", "tag", "label", "tags", "labels", "code", "revision", "ref")),
         _quoted(_slug), trusted=False),
    Kind("sentence", _named("message", "text", "content", "contents", "description", "body", "comment", "note", "notes",
                            "summary", "thought", "insight", "prompt", "observations", "observation", "question"),
         _quoted(_sentence), trusted=False),
    Kind("short", lambda field: True, _quoted(_short), trusted=False),
)  # fmt: skip
