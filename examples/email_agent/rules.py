"""The rules by which the stand-in (``../stand_in.py``) answers in the place of the hosted model of the e-mail agent.

They search for the words of the question that are not in every question, read what others wrote, the best match first, until a message has
what the question asks for, and answer with the sentence that has it. They know nothing of the mail. What they are asked beyond the wordings of
``questions.jsonl`` they may get wrong.
"""

import json
import re
from calendar import month_name
from collections.abc import Iterator
from typing import Any

MONTHS = month_name[1:]
DAY = rf"\d+ (?:{'|'.join(MONTHS)})"
NAME = r"[A-Z]\w+ [A-Z]\w+"
USUAL = (
    "about after as ask at booking by choose code cost day deadline did do does due due for goes has have hotel how i in into is looks me "
    "meet much need number of offered on price room sent show sleep stay take that the to travel under we what when where which who whom"
)
"""The words that say what kind of thing is asked for, not which."""

KINDS = (
    ("invoice", r"\bR\d{5}\b"),
    ("tracking|travel", r"\bT\d{6}\b"),
    ("room|where do we", r"\b[A-H]\d{3}\b"),
    ("review", DAY),
    ("code", r"\b[A-Z]{2}\d{4}\b"),
    ("hotel|sleep", rf"(?:at|called) {NAME}"),
    ("looks after|whom", rf"{NAME} (?:who )?looks after"),
    ("need|due|deadline", rf"by {DAY}"),
    ("choose|take|goes", r"take the [A-Z]\w+ \d\d"),
    ("", r"[\d,]+ EUR"),
)
"""What a question contains, and what its answer looks like in a message; the first that fits."""

HIT = re.compile(r"^(m\d+) \S+ (\S+):", re.MULTILINE)


def reply(messages: list[dict[str, Any]], offered: list[str]) -> tuple[str, dict[str, Any]]:
    """The next call of the assistant."""
    question = messages[1]["content"].splitlines()[-1]
    calls = dict(_results(messages))
    if not calls:
        words = [word for word in re.findall(r"\w+", question) if word.casefold() not in USUAL.split()]
        return "search_emails", {"keywords": " ".join(words)}
    pattern = next(pattern for said, pattern in KINDS if re.search(said, question, re.IGNORECASE))
    for message_id, text in calls.items():
        if message_id and (answer := _sentence(pattern, text)):
            return "return_final_answer", {"answer": answer, "sources": [message_id]}
    for message_id, sender in HIT.findall(calls[""]):
        if message_id not in calls and sender != "me" and not sender.startswith("news@"):
            return "read_email", {"message_id": message_id}
    return "return_final_answer", {"answer": "I don't know.", "sources": []}


def _results(messages: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Id → text of every message that was read; that of the search has no id."""
    asked = {
        call["id"]: json.loads(call["function"]["arguments"])
        for message in messages
        for call in message.get("tool_calls") or ()
    }
    for message in messages:
        if message["role"] == "tool":
            yield asked[message["tool_call_id"]].get("message_id", ""), message["content"]


def _sentence(pattern: str, message: str) -> str | None:
    """The sentence of a message that has what is looked for."""
    sentences = re.split(r"(?<=[.?!])\s+|\n+", message.partition("\n")[2])
    return next((sentence.strip() for sentence in sentences if re.search(pattern, sentence)), None)
