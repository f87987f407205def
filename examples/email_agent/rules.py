"""The rules by which the stand-in (``../stand_in.py``) answers in the place of the hosted model of the e-mail agent.

They search for the words of the question that are not in every question, read what others wrote, the best match first, until a message has
what the question asks for, and put that into a sentence. They know nothing of the mail. What they are asked beyond the wordings of
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
    ("invoice", r"\b(R\d{5})\b", "It is invoice {}."),
    ("tracking|travel", r"\b(T\d{6})\b", "Tracking number {}."),
    ("room|where do we", r"\b([A-H]\d{3})\b", "In room {}."),
    ("review", rf"({DAY})", "On {}."),
    ("code", r"\b([A-Z]{2}\d{4})\b", "Booking code {}."),
    ("hotel|sleep", rf"(?:at|called) ({NAME})", "At {}."),
    ("looks after|whom", rf"({NAME}) (?:who )?looks after", "{} looks after it."),
    ("need|due|deadline", rf"by ({DAY})", "By {}."),
    ("choose|take|goes", r"take the ([A-Z]\w+ \d\d)", "We take the {}."),
    ("", r"([\d,]+) EUR", "They cost {} EUR."),
)
"""What a question contains, what its answer looks like in a message, and how that is put; the first that fits."""

HIT = re.compile(r"^(m\d+) \S+ (\S+):", re.MULTILINE)


def reply(messages: list[dict[str, Any]], offered: list[str]) -> tuple[str, dict[str, Any]]:
    """The next call of the assistant."""
    question = messages[1]["content"].splitlines()[-1]
    calls = dict(_results(messages))
    if not calls:
        return "search_emails", _query(question)
    _, pattern, sentence = next(kind for kind in KINDS if re.search(kind[0], question, re.IGNORECASE))
    for message_id, text in calls.items():
        found = re.search(pattern, text)
        if message_id and found:
            return "return_final_answer", {"answer": sentence.format(found.group(1)), "sources": [message_id]}
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


def _query(question: str) -> dict[str, str]:
    """What to search for: the unusual words; an invoice in its month."""
    words = [word for word in re.findall(r"\w+", question) if word.casefold() not in USUAL.split()]
    if "invoice" not in words:
        return {"keywords": " ".join(words)}
    month = next((number for number, name in enumerate(MONTHS, start=1) if name in words), 1)
    end = f"2027-{month + 1:02d}-01" if month < 12 else "2028-01-01"
    words = [word for word in words if word != MONTHS[month - 1]]
    return {"keywords": " ".join(words), "sent_after": f"2027-{month:02d}-01", "sent_before": end}
