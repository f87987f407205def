"""Meeting notes, to be turned into a list of action items with owners: a task in words, without tools."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from art_core.randomness import rng

from .names import FIRST
from .world import Question, World, since_the_request

__all__ = ["items_of", "notes"]

_TASK = "Turn messy meeting notes into a list of action items with owners"
_SYSTEM = "Turn the notes into action items: one line for each, as '- Owner: what to do'. Write nothing else."
_VERBS = ["send", "check", "print", "update", "translate", "file", "review", "order", "pay", "cancel"]
_THINGS = [
    "the budget",
    "the contract",
    "the slides",
    "the flyer",
    "the price list",
    "the invoice",
    "the rota",
    "the permit",
]
_DAYS = ["by Monday", "by Tuesday", "by Wednesday", "by Thursday", "by Friday", "today", "tomorrow", "next week"]
_ASIDES = [
    "The coffee machine is broken again.",
    "Lunch was good.",
    "We went over the figures of last month.",
    "Nobody liked the new logo.",
    "The heating is on now.",
    "The visitors were pleased.",
    "Parking was difficult.",
    "It was a long day.",
]


def notes() -> World:
    """A different mix of owners, tasks and days in each question."""
    questions = [_question(rng("worlds", "notes", number), 1 + number % 3) for number in range(240)]
    known = {question.text: question.answer for question in questions}
    return World(
        verb=lambda home: ["task", _TASK],
        questions=questions,
        system=_SYSTEM,
        grades=lambda context, attempt: _grade(known, context, attempt),
    )


def items_of(answer: str) -> list[str]:
    """The items of a list, each without its dash and its full stop.

    >>> items_of("- Ada: pay the invoice today.\\n\\n* Leo: book the room")
    ['ada: pay the invoice today', 'leo: book the room']
    """
    lines = (line.strip().lstrip("-*• ").rstrip(".").casefold() for line in answer.splitlines())
    return [line for line in lines if line]


def _grade(known: Mapping[str, str], context: str, attempt: str) -> float:
    """How many of the items are there, each half for its owner and half for what to do, less the share of lines too many."""
    request, done = since_the_request(context, attempt)
    wanted, lines = items_of(known[request.strip()]), items_of(done.partition("[assistant]")[2])
    if not lines:
        return 0.0
    found = sum(max(_likeness(item, line) for line in lines) for item in wanted) / len(wanted)
    return round(found * min(1.0, len(wanted) / len(lines)), 3)


def _likeness(item: str, line: str) -> float:
    owner, _, task = item.partition(": ")
    said_by, _, said = line.partition(": ")
    return 0.5 * (owner == said_by) + 0.5 * (task == said)


def _question(draw: Random, count: int) -> Question:
    owners = draw.sample(FIRST, 2 * count)
    tasks = [f"{draw.choice(_VERBS)} {thing} {draw.choice(_DAYS)}" for thing in draw.sample(_THINGS, count)]
    said = [_said(draw, owner, other, task) for owner, other, task in zip(owners, owners[count:], tasks, strict=False)]
    lines = [*said, *draw.sample(_ASIDES, 2)]
    order = draw.sample(range(len(lines)), len(lines))
    items = [f"- {owners[number]}: {tasks[number]}" for number in order if number < count]
    answer = "\n".join(items)
    return Question(
        text=" ".join(lines[number] for number in order), difficulty=2 * count - 1, calls=(), fact=answer, answer=answer
    )


def _said(draw: Random, owner: str, other: str, task: str) -> str:
    return draw.choice(
        [
            f"{owner}: I will {task}.",
            f"{other}: {owner}, could you {task}? {owner}: Sure.",
            f"{owner} will {task}, said {other}.",
        ]
    )
