"""Writes the questions about the demo mail: ``questions.jsonl``.

    python make_questions.py

They are the same every time. Each says which fact the answer has to state and which message tells it. Two that are about one thread
share a ``content``, so that they are never trained on and tested with.
"""

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mail_agent.demo import Fact, demo

HERE = Path(__file__).parent
TODAY = "2028-01-10"
OF_EACH = 32
"""Questions of a kind."""

KINDS = {
    "amount": (
        "What does {supplier} ask for the {thing}?",
        "How much do the {thing} of {supplier} cost?",
        "What is the price of the {thing} that {supplier} offered?",
    ),
    "room": (
        "In which room is the {month} review of {project}?",
        "Where do we meet for the {month} review of {project}?",
    ),
    "day": ("On which day is the {month} review of {project}?", "When do we meet for the {month} review of {project}?"),
    "option": (
        "Which {part} did we choose for {project}?",
        "What do we take as {part} for {project}?",
        "Which {part} goes into {project}?",
    ),
    "due": (
        "By when does {client} need the {document}?",
        "When is the {document} for {client} due?",
        "What is the deadline of {client} for the {document}?",
    ),
    "hotel": ("In which hotel do I stay in {city} in {month}?", "Where do I sleep in {city} in {month}?"),
    "code": ("What is the booking code for {city} in {month}?", "Which booking code do I show in {city} in {month}?"),
    "name": ("Who looks after {topic} at {company}?", "Whom do I ask about {topic} at {company}?"),
    "tracking": (
        "What is the tracking number of the {thing} for {city}?",
        "Under which number do the {thing} travel to {city}?",
    ),
    "number": (
        "What is the number of the invoice that {supplier} sent in {month}?",
        "Which number has the {month} invoice of {supplier}?",
    ),
}
"""What is asked → how."""


def main() -> None:
    questions = make_questions(demo()[1], random.Random(2028))
    lines = [json.dumps({"id": f"q{number:03d}", **record}) for number, record in enumerate(questions, start=1)]
    (HERE / "questions.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def make_questions(facts: Iterable[Fact], draw: random.Random) -> list[dict[str, Any]]:
    """``OF_EACH`` of each kind, without ids; the kinds take turns, so that any few in a row are of all kinds."""
    by_kind: dict[str, list[Fact]] = {kind: [] for kind in KINDS}
    for fact in facts:
        by_kind[fact.kind].append(fact)
    drawn = [draw.sample(of_kind, OF_EACH) for of_kind in by_kind.values()]
    return [_question(fact, draw) for turn in zip(*drawn, strict=True) for fact in draw.sample(turn, len(turn))]


def _question(fact: Fact, draw: random.Random) -> dict[str, Any]:
    asked = draw.choice(KINDS[fact.kind]).format(**fact.values)
    return {
        "input": {"question": asked, "inbox": fact.inbox, "today": TODAY},
        "expected": {"answer": fact.answer, "source": fact.source},
        "metadata": {"kind": fact.kind, "content": f"thread {fact.thread}"},
    }


if __name__ == "__main__":
    main()
