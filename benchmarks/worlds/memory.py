"""A graph of people and projects on the memory server; a question takes one, two or three calls, each with what the one before brought."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from art_core.randomness import rng

from .names import BIRDS, CITIES, FIRST, LAST, MONTHS, node_server
from .world import RULER, Question, World

__all__ = ["memory"]


def memory() -> World:
    draw = rng("worlds", "memory")
    people = [f"{first} {last}" for first in FIRST for last in LAST]
    draw.shuffle(people)
    project = {person: BIRDS[number % len(BIRDS)] for number, person in enumerate(people)}
    manager = dict(zip(BIRDS, reversed(people), strict=False))
    phone = {person: str(1000 + 37 * number) for number, person in enumerate(people)}
    city = {person: draw.choice(CITIES) for person in people}
    days = draw.sample([f"{day} {month}" for month in MONTHS for day in range(1, 29)], len(BIRDS))
    deadline = dict(zip(BIRDS, days, strict=True))
    lines = [_entity(p, "person", f"phone {phone[p]}", f"lives in {city[p]}", f"works on {project[p]}") for p in people]
    lines += [_entity(b, "project", f"manager {manager[b]}", f"deadline {deadline[b]}") for b in BIRDS]
    questions = [
        *_one_call(people[:72], phone),
        *_two_calls(people[36:108], project, deadline),
        *_three_calls(people[72:], project, manager, city),
    ]
    draw.shuffle(questions)
    return World(
        verb=lambda home: ["mcp", str(node_server(home, "memory")), "--env", "MEMORY_FILE_PATH={workdir}/graph.jsonl"],
        questions=questions,
        files={"graph.jsonl": "\n".join(lines) + "\n"},
        options=(*RULER, "--tools", "open_nodes", "--max-turns", "5"),
    )


def _one_call(people: Sequence[str], phone: Mapping[str, str]) -> Iterator[Question]:
    for person in people:
        yield Question(
            text=f"What is the phone number of {person}?",
            difficulty=1,
            calls=(_open(person),),
            fact=phone[person],
            answer=f"The phone number of {person} is {phone[person]}.",
        )


def _two_calls(people: Sequence[str], project: Mapping[str, str], deadline: Mapping[str, str]) -> Iterator[Question]:
    for person in people:
        bird = project[person]
        yield Question(
            text=f"When is the deadline of the project that {person} works on?",
            difficulty=3,
            calls=(_open(person), _open(bird)),
            fact=deadline[bird],
            answer=f"{person} works on {bird}, whose deadline is {deadline[bird]}.",
        )


def _three_calls(
    people: Sequence[str], project: Mapping[str, str], manager: Mapping[str, str], city: Mapping[str, str]
) -> Iterator[Question]:
    for person in people:
        boss = manager[project[person]]
        yield Question(
            text=f"In which city does the manager of the project of {person} live?",
            difficulty=5,
            calls=(_open(person), _open(project[person]), _open(boss)),
            fact=city[boss],
            answer=f"The manager is {boss}, who lives in {city[boss]}.",
        )


def _open(name: str) -> tuple[str, dict[str, Any]]:
    return "open_nodes", {"names": [name]}


def _entity(name: str, kind: str, *observations: str) -> str:
    return json.dumps({"type": "entity", "name": name, "entityType": kind, "observations": list(observations)})
