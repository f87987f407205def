"""How good an answer of the e-mail agent is: the reward, which reads the calls, what the tools said, and the answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from art_core import Reward

if TYPE_CHECKING:
    from art_core import Scenario, Trajectory

FOUND, READ, SOURCE, ANSWER = 0.1, 0.2, 0.2, 0.5
HONEST = 0.05
"""For saying that one does not know, on top of what was found and read."""
UNFOUNDED = 0.5
"""What is left of that to who asserts something else."""
MOST_WORDS = 30
"""Of an answer: a copy of the mail is none."""

UNKNOWN = re.compile(
    r"\b(?:do not|don['’]?t|cannot|can['’]?t|could not|couldn['’]?t) (?:know|tell|find|say)\b", re.IGNORECASE
)
RESULT = re.compile(r"^(m\d+) ", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What was done before the answer."""

    found: set[str]
    """Ids that a search returned."""
    read: set[str]
    """Ids of messages that were read."""


def score(trajectory: Trajectory, scenario: Scenario) -> Reward:
    """0.1 for finding the message, 0.2 more for reading it, 0.2 more for naming it as the source, 0.5 more for the right answer.

    An answer counts only with the message that was read, sources only if all of them were read: a guess is worth nothing. Who says
    "I don't know" keeps what was earned on the way and 0.05 on top; who asserts something else keeps half of it. Success is the right
    answer with the right source.
    """
    expected, work = scenario.expected, work_of(trajectory)
    source = expected["source"]
    answer, sources = answer_of(trajectory)
    found, read = source in work.found, source in work.read
    cited = read and source in sources and set(sources) <= work.read
    unknown = UNKNOWN.search(answer) is not None
    stated = not unknown and len(answer.split()) <= MOST_WORDS and states(answer, expected["answer"])
    right = stated and read
    earned = FOUND * found + READ * read + SOURCE * cited
    if right:
        value = earned + ANSWER
    elif unknown:
        value = earned + HONEST
    else:
        value = UNFOUNDED * earned if answer else earned
    return Reward(
        round(value, 3),
        success=right and cited,
        parts={"found": float(found), "read": float(read), "source": float(cited), "answer": float(right)},
        reason=f"read {sorted(work.read)}, answered {answer!r} from {list(sources)}",
    )


def work_of(trajectory: Trajectory) -> Work:
    """What the searches returned, and which messages were really read, by the answers of the tools."""
    asked = {call.id: call for message in trajectory.messages for call in message.tool_calls}
    found, read = set[str](), set[str]()
    for message in trajectory.messages:
        call = asked.get(message.tool_call_id or "") if message.role == "tool" else None
        if call is None:
            continue
        if call.name == "search_emails":
            found |= set(RESULT.findall(message.text))
        elif call.name == "read_email" and message.text.startswith("From "):
            read.add(call.parsed()["message_id"].strip())
    return Work(found=found, read=read)


def answer_of(trajectory: Trajectory) -> tuple[str, list[Any]]:
    """The answer and its sources; nothing if the program came to none."""
    output = trajectory.output or {}
    return output.get("answer", ""), output.get("sources", [])


def states(text: str, fact: str) -> bool:
    """Whether a text states a fact: the same words or the same number, not a part of a longer one; 9 June is June 9, and 1,200 is 1200."""
    day, _, month = fact.partition(" ")
    wordings = {fact, f"{month} {day}"} if day.isdigit() else {fact}
    plain = _plain(text)
    return any(re.search(rf"(?<![\w.]){re.escape(_plain(one))}(?!\w|\.\d)", plain) for one in wordings)


def _plain(text: str) -> str:
    return re.sub(r"(?<=\d),(?=\d{3})", "", text).casefold()
