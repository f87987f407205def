"""Three servers with something on them, and programs that stand in for the language models of a run without data.

Each world knows what is there, so it can write requests, do them as a reference would, judge an attempt by what it did and said, and
check it without the judge. ``memory`` and ``files`` take several calls, of which the later ones depend on what the earlier ones bring.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from art_core.messages import canonical_json
from art_core.randomness import rng
from art_core.scenario import Scenario
from art_core.trajectory.trajectory import Reward, Trajectory
from tests.servers.chat_server import call
from tests.servers.roles import Roles, said

__all__ = ["WORLDS", "Question", "World", "check"]

_FIRST = ["Ada", "Bruno", "Carla", "Deniz", "Elif", "Farid", "Greta", "Hugo", "Ines", "Jonas", "Kira", "Leo"]
_LAST = ["Berg", "Costa", "Dahl", "Egger", "Fonda", "Grau", "Holm", "Iversen", "Jansen", "Krol", "Lind", "Moreau"]
_BIRDS = [
    "Heron",
    "Kestrel",
    "Plover",
    "Wren",
    "Magpie",
    "Osprey",
    "Lapwing",
    "Curlew",
    "Dunlin",
    "Finch",
    "Grebe",
    "Hobby",
]
_BIRDS += [
    "Jackdaw",
    "Linnet",
    "Merlin",
    "Oriole",
    "Puffin",
    "Quail",
    "Redstart",
    "Siskin",
    "Tern",
    "Veery",
    "Whimbrel",
    "Nuthatch",
]
_CITIES = ["Oslo", "Porto", "Graz", "Lyon", "Turin", "Ghent", "Bergen", "Malaga", "Krakow", "Galway", "Zadar", "Tartu"]
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A request, what answers it and the fact that the answer has to state."""

    text: str
    difficulty: int
    calls: tuple[tuple[str, Mapping[str, Any]], ...]
    fact: str
    answer: str


@dataclass(slots=True, kw_only=True)
class World:
    """What a server has on it."""

    server: Callable[[Path], list[str]]
    """The words of ``art train mcp`` about it, given where the servers are installed."""
    questions: Sequence[Question] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    """Its fixture: path → text."""
    options: tuple[str, ...] = ()
    """Further words of ``art train mcp``."""
    grades: Callable[[str, str], float] | None = None
    """Of the request and an attempt; unless given, by the calls that the question takes and the fact."""

    def roles(self) -> Roles:
        """What plays the language models of a run."""
        fresh = iter(self.questions)
        return Roles(
            writes=lambda wanted, prompt: [_entry(one) for one in itertools.islice(fresh, wanted)],
            does=self._does,
            grades=self.grades or self._grades,
        )

    def asked(self, text: str) -> Question:
        """The question with that text."""
        return next(one for one in self.questions if one.text == text.strip())

    def _does(self, messages: Sequence[Mapping[str, Any]]) -> Any:
        question = self.asked(said(messages, "user")[-1])
        done = sum(message["role"] == "tool" for message in messages)
        if done == len(question.calls):
            return question.answer
        name, arguments = question.calls[done]
        return call(name, **arguments)

    def _grades(self, context: str, attempt: str) -> float:
        """0.6 for the calls that it takes, each with its share, and 0.4 for an answer that states the fact, if the calls were made."""
        request, done = since_the_request(context, attempt)
        question = self.asked(request)
        calls = [f"→ {name}({canonical_json(dict(arguments))})" for name, arguments in question.calls]
        made = sum(one in done for one in calls) / len(calls)
        ending = done.rpartition("[assistant]")[2]
        stated = made == 1 and "→" not in ending and question.fact.casefold() in ending.casefold()
        return round(0.6 * made + 0.4 * stated, 3)


def since_the_request(context: str, attempt: str) -> tuple[str, str]:
    """The last request that a judge is shown, and everything after it: what all attempts did alike, then the attempt."""
    after = context.rpartition("[user]\n")[2]
    request, _, shared = after.partition("\n[")
    return request, f"[{shared}\n{attempt}" if shared else attempt


def check(trajectory: Trajectory, scenario: Scenario) -> Reward:
    """Success without a judge: the calls that the question takes were made and answered, and the last reply states the fact."""
    world = next(world for world in WORLDS.values() if any(one.text == scenario.input for one in world.questions))
    question = world.asked(str(scenario.input))
    good = [(event.name, event.arguments) for event in trajectory.events if event.error is None]
    made = all((name, dict(arguments)) in good for name, arguments in question.calls)
    stated = question.fact.casefold() in str(trajectory.output).casefold()
    return Reward(float(made and stated), success=made and stated, parts={"calls": float(made), "fact": float(stated)})


def _entry(question: Question) -> dict[str, Any]:
    tools = sorted({name for name, _ in question.calls})
    return {"request": question.text, "difficulty": question.difficulty, "tools": tools}


def _memory() -> World:
    draw = rng("worlds", "memory")
    people = [f"{first} {last}" for first in _FIRST for last in _LAST]
    draw.shuffle(people)
    project = {person: _BIRDS[number % len(_BIRDS)] for number, person in enumerate(people)}
    manager = dict(zip(_BIRDS, reversed(people), strict=False))
    phone = {person: str(1000 + 37 * number) for number, person in enumerate(people)}
    city = {person: draw.choice(_CITIES) for person in people}
    days = draw.sample([f"{day} {month}" for month in _MONTHS for day in range(1, 29)], len(_BIRDS))
    deadline = dict(zip(_BIRDS, days, strict=True))
    lines = [_entity(p, "person", f"phone {phone[p]}", f"lives in {city[p]}", f"works on {project[p]}") for p in people]
    lines += [_entity(b, "project", f"manager {manager[b]}", f"deadline {deadline[b]}") for b in _BIRDS]
    questions = [
        *_one_call(people[:64], phone),
        *_two_calls(people, project, deadline),
        *_three_calls(people[64:96], project, manager, city),
    ]
    draw.shuffle(questions)
    return World(
        server=lambda home: [str(_node(home, "memory")), "--env", "MEMORY_FILE_PATH={workdir}/graph.jsonl"],
        questions=questions,
        files={"graph.jsonl": "\n".join(lines) + "\n"},
        options=("--tools", "open_nodes", "--max-turns", "5"),
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


def _files() -> World:
    draw = rng("worlds", "files")
    folders = [f"{first.lower()}-{last.lower()}" for first in _FIRST for last in _LAST]
    draw.shuffle(folders)
    files, questions = {}, []
    for number, folder in enumerate(folders):
        name, code = f"{draw.choice(_BIRDS).lower()}.txt", str(2000 + 31 * number)
        files[f"{folder}/{name}"] = f"The code of this folder is {code}.\n"
        questions.append(
            Question(
                text=f"Which code is in the only file of the folder {folder}?",
                difficulty=3,
                calls=(("list_directory", {"path": folder}), ("read_text_file", {"path": f"{folder}/{name}"})),
                fact=code,
                answer=f"The code is {code}.",
            )
        )
    return World(
        server=lambda home: [f"{_node(home, 'filesystem')} {{workdir}}"],
        questions=questions,
        files=files,
        options=("--max-turns", "4"),
    )


def _time_grade(context: str, attempt: str) -> float:
    """What a careful reader sees in a question about times: the call, whether it was answered, and whether its values are those asked for."""
    request, done = since_the_request(context, attempt)
    made = re.search(r"→ (\w+)\((\{.*?\})\)", done)
    if made is None:
        return 0.0
    asked = re.search(r"\b\d{1,2}:\d{2}\b", request)
    right_tool = made[1] == ("convert_time" if asked else "get_current_time")
    values: Mapping[str, Any] = json.loads(made[2])
    places = [_place(str(values.get(name)), request) for name in ("timezone", "source_timezone", "target_timezone")]
    fitting = sum(place >= 0 for place in places) + (str(values.get("time")) in request)
    if -1 < places[2] < places[1]:  # people name the place first that the time is of
        fitting -= 2
    share = fitting / max(len(values), 3 if asked else 1)
    answered = share == 1 and "rror" not in done.partition(made[0])[2]
    return round(0.1 + right_tool * (0.1 + 0.6 * share + 0.2 * answered), 3)


def _place(zone: str, request: str) -> int:
    """Where the request names a zone, by its name or its city; -1 if it does not."""
    city = zone.rpartition("/")[2].replace("_", " ")
    return max(request.find(zone), request.find(city)) if city else -1


def _node(home: Path, name: str) -> Path:
    return home / "node" / "node_modules" / ".bin" / f"mcp-server-{name}"


WORLDS: Mapping[str, World] = {
    "time": World(
        server=lambda home: ["python -m mcp_server_time"], grades=_time_grade, options=("--author", "schema")
    ),
    "memory": _memory(),
    "files": _files(),
}
