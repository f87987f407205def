"""The rules by which the stand-in (``../stand_in.py``) answers in the place of the hosted model of the support agent.

They find the order, product or customer in the question, call the tool for it, and put what the tool said into a sentence. They know
nothing of the database. What they are asked beyond the wordings of ``questions.jsonl`` they may get wrong.
"""

import re
from typing import Any

PRODUCT = re.compile(r"\b(?:walking|winter|trail|summit|river|desert) \w+")
CUSTOMER = re.compile(r"(?:of|am|did) ([A-Z]\w+ [A-Z]\w+)")

RULES = (
    (r"return|send(?:ing)? back", "ask_returns"),
    (r"\border\b", "find_order"),
    (r"ticket|case|problem", "find_ticket"),
    ("", "find_product"),
)
"""What a question contains → the tool for it; the first that fits."""

SENTENCES = (
    (r"status (.+), arrives (.+)", "The order is {} and arrives on {}."),
    (r"price (.+), stock (\d+)", "The price is {} and {} are in stock."),
    (r"about (.+), handled by (\w+)", "The ticket is about {} and {} handles it."),
    (r"within (\d+) days, fee (.+)", "It can be returned within {} days for {}."),
    (r"(.+)", "{}"),
)
"""What a tool said → how it is put; the first that fits. What the specialist said is passed on."""


def reply(messages: list[dict[str, Any]], offered: list[str]) -> str | tuple[str, dict[str, Any]]:
    """What the assistant says next: a text, or the name and the arguments of a call."""
    if messages[-1]["role"] == "tool":
        return _sentence(messages[-1]["content"])
    return _call(next(message["content"] for message in messages if message["role"] == "user"), offered)


def _call(question: str, offered: list[str]) -> tuple[str, dict[str, Any]]:
    found = PRODUCT.search(question)
    product = found.group() if found else ""
    if "return_terms" in offered:
        return "return_terms", {"product": product}
    name = next(tool for pattern, tool in RULES if re.search(pattern, question))
    if name == "ask_returns":
        return name, {"question": question}
    if name == "find_order":
        number = re.search(r"\d+", question)
        return name, {"number": int(number.group()) if number else 0}
    if name == "find_ticket":
        customer = CUSTOMER.search(question)
        return name, {"customer": customer.group(1) if customer else ""}
    return name, {"name": product}


def _sentence(known: str) -> str:
    found, sentence = next((found, text) for pattern, text in SENTENCES if (found := re.search(pattern, known)))
    return sentence.format(*found.groups())
