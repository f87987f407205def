"""The demo mail: a year of a maker of instruments, drawn from ``demo_plots`` and ``demo_text``, the same every time.

Every thread tells a thing or two that can be asked for, in one of its messages; no value of a kind is told twice. What is like it surrounds
it: the same project in another month, the same sender on another matter, another sum in the same thread.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import lru_cache
from itertools import product
from typing import Any

from . import demo_text as text
from .demo_plots import PLOTS

SEED = 2027
YEAR = 2027
THREADS = 80
"""Of each plot."""
ASIDES = 0.1
"""The share of messages that also tell something else."""
NOTES, LETTERS = 620, 60
"""Messages that tell nothing: of staff, and of suppliers to many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    id: str
    sent: str
    """ISO date and time."""
    sender: str
    recipients: tuple[str, ...]
    subject: str
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """What one message tells, and who could ask for it."""

    kind: str
    values: Mapping[str, str]
    """What the thread is about."""
    answer: str
    source: str
    """The id of the message."""
    thread: int
    inbox: str


@dataclass(frozen=True, slots=True)
class Person:
    name: str
    address: str

    @property
    def first(self) -> str:
        return self.name.split()[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A plot with its people and words, and the day of its first message."""

    plot: str
    people: Mapping[str, Person]
    values: Mapping[str, str]
    begins: date


@lru_cache(maxsize=1)
def demo() -> tuple[tuple[Message, ...], tuple[Fact, ...]]:
    """All messages, oldest first, and what they tell."""
    draw = random.Random(SEED)
    drafts: list[tuple[Message, list[Fact]]] = []
    drawn = Drawn(draw)
    scenes = [scene for plot in PLOTS for scene in drawn.scenes(plot)]
    for number, scene in enumerate(scenes):
        drafts += _thread(scene, number, draw)
    drafts += [(message, []) for message in _chatter(draw)]
    drafts.sort(key=lambda item: item[0].sent)
    messages, facts = [], []
    for number, (message, told) in enumerate(drafts, start=1):
        messages.append(replace(message, id=f"m{number:04d}"))
        facts += [replace(fact, source=f"m{number:04d}") for fact in told]
    return tuple(messages), tuple(facts)


class Drawn:
    """Values of which none comes twice, and the scenes made of them."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._days = {month: draw.sample(range(1, 29), 28) for month in range(1, 13)}
        self._names = _mixed(text.FIRST.split(), text.LAST.split(), draw)
        self._staff = [_person(name, text.HOUSE) for name in text.STAFF]
        self._partners = {company: _person(next(self._names), company) for company in text.SUPPLIERS + text.CLIENTS}
        self._sums = (f"{amount:,}" for amount in draw.sample(range(1000, 10000), 1000))
        self._options = _mixed(text.MAKES, [str(number) for number in range(10, 100)], draw)
        self._hotels = _mixed(text.HOTELS, text.HOUSES, draw)
        self._rooms = _codes("ABCDEFGH", 3, draw)
        self._bookings = _codes(("KL", "MR", "PT", "VX"), 4, draw)
        self._trackings = _codes("T", 6, draw)
        self._invoices = _codes("R", 5, draw)

    def scenes(self, plot: str) -> Iterator[Scene]:
        """``THREADS`` of them."""
        about: Sequence[tuple[Any, ...]]
        about, make = self._plots()[plot]
        for chosen in self._draw.sample(list(about), THREADS):
            people, values, begins = make(*chosen)
            yield Scene(plot=plot, people=people, values=values, begins=begins or self._any_day())

    def _plots(self) -> dict[str, tuple[Any, Callable[..., Any]]]:
        projects, months = range(len(text.PROJECTS)), range(1, 13)
        return {
            "quote": (product(text.SUPPLIERS, text.THINGS), self._quote),
            "review": (product(projects, months), self._review),
            "choice": (product(projects, text.PARTS), self._choice),
            "deadline": (product(text.CLIENTS, text.DOCUMENTS), self._deadline),
            "trip": (product(range(len(text.STAFF)), range(3), months), self._trip),
            "contact": (product(text.SUPPLIERS + text.CLIENTS, text.TOPICS), self._contact),
            "parcel": (product(text.THINGS, text.CITIES), self._parcel),
            "invoice": (product(text.SUPPLIERS, months), self._invoice),
        }

    def _quote(self, supplier: str, thing: str) -> Any:
        owner = text.THINGS.index(thing)
        people = {"asker": self._of(owner), "seller": self._partners[supplier], "colleague": self._of(owner + 4)}
        values = {"supplier": supplier, "thing": thing, "count": self._count()}
        return people, {**values, "amount": next(self._sums), "decoy": next(self._sums)}, None

    def _review(self, project: int, month: int) -> Any:
        day = self._days[month].pop()
        values = {"project": text.PROJECTS[project], "month": text.MONTHS[month - 1], "day": _spoken(month, day)}
        return self._team(project), {**values, "room": next(self._rooms)}, self._before(month, day, 8, 16)

    def _choice(self, project: int, part: str) -> Any:
        values = {"project": text.PROJECTS[project], "part": part}
        return self._team(project), {**values, "option": next(self._options), "decoy": next(self._options)}, None

    def _deadline(self, client: str, document: str) -> Any:
        owner, month = text.CLIENTS.index(client), self._draw.randint(1, 12)
        day = self._days[month].pop()
        people = {"client": self._partners[client], "asker": self._of(owner + 1), "colleague": self._of(owner + 2)}
        values = {"client": client, "document": document, "due": _spoken(month, day)}
        earlier = date(YEAR, month, day) - timedelta(days=self._draw.randint(2, 5))
        decoy = _spoken(earlier.month, earlier.day)
        return people, {**values, "decoy": decoy}, self._before(month, day, 14, 25)

    def _trip(self, owner: int, which: int, month: int) -> Any:
        city = text.CITIES[(owner + which) % len(text.CITIES)]
        values = {"city": city, "month": text.MONTHS[month - 1]}
        people = {"asker": self._of(owner), "travel": Person("Travel desk", f"travel@{text.HOUSE}.example")}
        booked = {"hotel": next(self._hotels), "code": next(self._bookings)}
        return people, {**values, **booked}, self._before(month, 1, 5, 20)

    def _contact(self, company: str, topic: str) -> Any:
        owner = (text.SUPPLIERS + text.CLIENTS).index(company)
        people = {"partner": self._partners[company], "asker": self._of(owner + 3)}
        return people, {"company": company, "topic": topic, "name": next(self._names), "old": next(self._names)}, None

    def _parcel(self, thing: str, city: str) -> Any:
        owner = text.THINGS.index(thing)
        shipping = Person("Shipping", f"shipping@{text.HOUSE}.example")
        people = {"asker": self._of(owner), "shipping": shipping, "colleague": self._of(owner + 4)}
        values = {"thing": thing, "city": city, "count": self._count()}
        return people, {**values, "tracking": next(self._trackings)}, None

    def _invoice(self, supplier: str, month: int) -> Any:
        owner = text.SUPPLIERS.index(supplier)
        values = {"supplier": supplier, "month": text.MONTHS[month - 1], "decoy": next(self._sums)}
        people = {"seller": self._partners[supplier], "asker": self._of(owner + 5)}
        return people, {**values, "number": next(self._invoices)}, date(YEAR, month, self._draw.randint(1, 28))

    def _of(self, place: int) -> Person:
        return self._staff[place % len(self._staff)]

    def _team(self, project: int) -> dict[str, Person]:
        return {"lead": self._of(project), "member": self._of(project + 3), "guest": self._of(project + 6)}

    def _count(self) -> str:
        return str(self._draw.randint(2, 60))

    def _before(self, month: int, day: int, least: int, most: int) -> date:
        return date(YEAR, month, day) - timedelta(days=self._draw.randint(least, most))

    def _any_day(self) -> date:
        return date(YEAR, 1, 4) + timedelta(days=self._draw.randint(0, 345))


def _thread(scene: Scene, number: int, draw: random.Random) -> Iterator[tuple[Message, list[Fact]]]:
    plot, sent = PLOTS[scene.plot], _office_hours(scene.begins, draw)
    subject, known = draw.choice(plot.subjects).format(**scene.values), set[str]()
    for part in plot.parts:
        if draw.random() >= part.share:
            continue
        marked = ("Re: " if set(part.to) <= known else "Fwd: ") if known else ""
        message = _message(
            sent,
            [scene.people[role] for role in (part.sender, *part.to)],
            marked + subject[0].upper() + subject[1:],
            draw.choice(part.bodies).format(**scene.values),
            draw,
        )
        known |= {part.sender, *part.to}
        told = plot.facts if part.told else ()
        yield message, [_fact(scene, kind, number, plot.inbox) for kind in told]
        sent += timedelta(days=draw.randint(0, 2), minutes=draw.randint(20, 90))


def _fact(scene: Scene, kind: str, thread: int, inbox: str) -> Fact:
    return Fact(
        kind=kind,
        values=scene.values,
        answer=scene.values[kind],
        source="",
        thread=thread,
        inbox=scene.people[inbox].address,
    )


def _message(sent: datetime, people: Sequence[Person], subject: str, said: str, draw: random.Random) -> Message:
    """One message from the first of ``people`` to the others."""
    sender, *recipients = people
    words = {"to": recipients[0].first, "sender": sender.first}
    lines = (
        draw.choice(text.GREETINGS).format(**words),
        f"{said} {draw.choice(text.ASIDES)}" if draw.random() < ASIDES else said,
        draw.choice(text.CLOSINGS).format(**words),
    )
    return Message(
        id="",
        sent=sent.isoformat(timespec="minutes"),
        sender=sender.address,
        recipients=tuple(person.address for person in recipients),
        subject=subject,
        body="\n".join(lines),
    )


def _chatter(draw: random.Random) -> Iterator[Message]:
    staff = [_person(name, text.HOUSE) for name in text.STAFF]
    for templates, count in ((text.CHATTER, NOTES), (text.LETTERS, LETTERS)):
        for _ in range(count):
            supplier = draw.choice(text.SUPPLIERS)
            sender, other, *rest = draw.sample(staff, draw.randint(3, 6))
            if templates is text.LETTERS:
                sender = Person(supplier, f"news@{_domain(supplier)}")
            words = {
                "other": other.first,
                "supplier": supplier,
                "project": draw.choice(text.PROJECTS),
                "city": draw.choice(text.CITIES),
                "month": draw.choice(text.MONTHS),
                "thing": draw.choice(text.THINGS),
                "food": draw.choice(text.FOODS),
            }
            subject, said = (part.format(**words) for part in draw.choice(templates))
            day = date(YEAR, 1, 4) + timedelta(days=draw.randint(0, 350))
            yield _message(_office_hours(day, draw), [sender, *rest], subject[0].upper() + subject[1:], said, draw)


def _mixed(left: Sequence[str], right: Sequence[str], draw: random.Random) -> Iterator[str]:
    """Every pair as two words, in random order."""
    pairs = [f"{one} {other}" for one in left for other in right]
    return iter(draw.sample(pairs, len(pairs)))


def _codes(prefixes: Sequence[str], digits: int, draw: random.Random) -> Iterator[str]:
    """A letter or two and a number, in random order."""
    numbers = draw.sample(range(10 ** (digits - 1), 10**digits), 4 * THREADS)
    return (f"{draw.choice(prefixes)}{number}" for number in numbers)


def _person(name: str, company: str) -> Person:
    return Person(name, f"{name.lower().replace(' ', '.')}@{_domain(company)}")


def _domain(company: str) -> str:
    return f"{company.lower().replace(' ', '-')}.example"


def _spoken(month: int, day: int) -> str:
    return f"{day} {text.MONTHS[month - 1]}"


def _office_hours(day: date, draw: random.Random) -> datetime:
    return datetime(day.year, day.month, day.day, 8) + timedelta(minutes=draw.randint(0, 540))
