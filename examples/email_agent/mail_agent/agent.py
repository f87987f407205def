"""The agent: answers a question about somebody's mail from what it finds and reads there, and names its sources."""

import json
import os
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from openai import OpenAI

from . import mailbox

MODEL = "gpt-5-mini"
MOST_TURNS = 6

SYSTEM = (
    "You answer questions about somebody's mail. Search, read, then return the answer in one sentence, with the ids of the "
    "messages it is from. If the mail does not tell, the answer is: I don't know."
)
QUESTION = "Mailbox: {inbox}\nToday: {today}\n{question}"


@lru_cache(maxsize=1)
def client() -> OpenAI:
    """The one client of the process."""
    return OpenAI(api_key=os.environ.get("OPENAI_API_KEY", "not set"))


def search_emails(inbox: str, keywords: str, sent_after: str = "", sent_before: str = "", sender: str = "") -> str:
    """The messages that match, one a line; those that the owner of the mailbox sent are from me."""
    for name, value in (("sent_after", sent_after), ("sent_before", sent_before)):
        if value and not re.fullmatch(r"\d{4}-\d\d-\d\d", value):
            return f"{name} {value!r} is not a date such as 2027-03-31"
    found = mailbox.search(inbox, keywords, sent_after, sent_before, sender)
    lines = []
    for one in found:
        sender = "me" if one["sender"] == inbox else one["sender"]
        lines.append(f"{one['id']} {one['sent'][:10]} {sender}: {one['subject']} | {_line(one['snippet'])}")
    return "\n".join(lines) or "nothing found"


def read_email(inbox: str, message_id: str) -> str:
    """A whole message."""
    found = mailbox.read(inbox, message_id)
    if found is None:
        return f"no message {message_id!r}"
    return f"From {found['sender']}, {found['sent'][:10]}\n{found['subject']}\n{found['body']}"


def _line(text: str) -> str:
    return " ".join(text.split())


def _tool(name: str, description: str, needed: list[str], **properties: dict[str, Any]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": needed}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TEXT = {"type": "string"}
TOOLS = [
    _tool(
        "search_emails",
        "Messages that have all keywords.",
        ["keywords"],
        keywords=TEXT,
        sent_after={**TEXT, "description": "YYYY-MM-DD"},
        sent_before=TEXT,
        sender=TEXT,
    ),
    _tool("read_email", "A whole message.", ["message_id"], message_id=TEXT),
    _tool(
        "return_final_answer",
        "End with the answer.",
        ["answer", "sources"],
        answer=TEXT,
        sources={"type": "array", "items": TEXT},
    ),
]
CALLED: dict[str, Callable[..., str]] = {"search_emails": search_emails, "read_email": read_email}


def run(task: dict[str, str]) -> dict[str, Any] | None:
    """Answer a question.

    Args:
        task: ``question``, the address of who asks as ``inbox``, and ``today``.

    Returns:
        ``answer`` and ``sources``; None if it came to no answer.
    """
    messages: list[Any] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": QUESTION.format(**task)},
    ]
    for _ in range(MOST_TURNS):
        reply = client().chat.completions.create(model=MODEL, messages=messages, tools=TOOLS).choices[0].message
        if not reply.tool_calls:
            return {"answer": reply.content or "", "sources": []}
        messages.append(reply.model_dump(exclude_none=True))
        for call in reply.tool_calls:
            arguments = _arguments(call.function.arguments)
            if call.function.name == "return_final_answer" and _is_answer(arguments):
                return arguments
            told = _call(call.function.name, task["inbox"], arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": told})
    return None


def _arguments(written: str) -> Any:
    try:
        return json.loads(written)
    except ValueError:
        return None


def _is_answer(arguments: Any) -> bool:
    return (
        isinstance(arguments, dict)
        and isinstance(arguments.get("answer"), str)
        and isinstance(arguments.get("sources"), list)
    )


def _call(name: str, inbox: str, arguments: Any) -> str:
    """What the tool says, or what is wrong with the call."""
    if name == "return_final_answer":
        return "an answer has the fields answer, a text, and sources, a list of ids"
    if name not in CALLED:
        return f"there is no tool {name!r}"
    if not isinstance(arguments, dict) or not all(isinstance(value, str) for value in arguments.values()):
        return "the arguments are to be an object of texts"
    try:
        return CALLED[name](inbox, **arguments)
    except TypeError:
        return f"{name} does not take these arguments: {', '.join(arguments)}"
