"""Writes the demo data of the shop and the questions about it: ``support_bot/shop.sql`` and ``questions.jsonl``.

    python make_questions.py

Both are the same every time. Each question says which calls answer it and which fact the answer has to contain. No order,
ticket, or product's price or stock, or terms of return, is asked for twice.
"""

import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

KINDS = {
    "status": (
        "Where is order {number}?",
        "What is the status of order {number}?",
        "Has my order {number} been sent yet?",
        "How far along is order {number}?",
    ),
    "arrival": (
        "When does order {number} arrive?",
        "What day will order {number} get here?",
        "On which day can I expect order {number}?",
        "When will I have my order, number {number}?",
    ),
    "price": (
        "What do the {name} cost?",
        "How much are the {name}?",
        "What is the price of the {name}?",
        "Tell me the price of your {name}.",
    ),
    "stock": (
        "How many {name} are in stock?",
        "How many {name} do you have left?",
        "What is the stock of the {name}?",
        "Are there any {name} left, and how many?",
    ),
    "topic": (
        "What is the ticket of {customer} about?",
        "I am {customer}. What is my ticket about?",
        "Which problem did {customer} report?",
    ),
    "agent": (
        "Who handles the ticket of {customer}?",
        "I am {customer}. Who looks after my ticket?",
        "Who is working on the case of {customer}?",
    ),
    "days": (
        "How long can I return the {name}?",
        "How many days do I have to send back the {name}?",
        "Until when can the {name} be returned?",
    ),
    "fee": (
        "What does it cost to return the {name}?",
        "What is the fee for sending back the {name}?",
        "Is there a fee if I return the {name}?",
    ),
}
"""What is asked → how."""

STATUSES = ("packed", "shipped", "delivered", "on hold", "cancelled")
MONTHS = ("March", "April", "May", "June", "July")
TOPICS = ("a broken zip", "a late parcel", "a wrong size", "a double charge", "a lost parcel", "a torn seam")
AGENTS = ("Ines", "Tomas", "Greta", "Yusuf", "Mira", "Paul")
FIRST = ("Ana", "Ben", "Carla", "David", "Elif", "Farid", "Hanna", "Ivan", "Julia", "Karim", "Lena", "Marco")
LAST = ("Ruiz", "Keller", "Novak", "Silva", "Berg", "Costa", "Meyer", "Patel", "Lund", "Rossi")
MADE_FOR = ("walking", "winter", "trail", "summit", "river", "desert")
THINGS = ("boots", "socks", "gloves", "trousers", "poles", "sandals", "gaiters", "goggles", "shorts", "mugs")


def main() -> None:
    draw = random.Random(2027)
    shop = make_shop(draw)
    (HERE / "support_bot" / "shop.sql").write_text("".join(f"{line}\n" for line in to_sql(shop)), encoding="utf-8")
    questions = interleaved(make_questions(shop, draw), draw)
    lines = [json.dumps({"id": f"q{number:03d}", **record}) for number, record in enumerate(questions, start=1)]
    (HERE / "questions.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def make_shop(draw: random.Random) -> dict[str, list[dict[str, Any]]]:
    """The rows of each table."""
    orders = [
        {
            "number": number,
            "status": draw.choice(STATUSES),
            "arrives": f"{draw.randint(1, 28)} {draw.choice(MONTHS)}",
        }
        for number in draw.sample(range(1000, 10000), 90)
    ]
    products = [
        {
            "name": f"{made_for} {thing}",
            "price": draw.randint(500, 19999) / 100,
            "stock": draw.randint(2, 99),
            "return_days": draw.choice((14, 21, 30, 45, 60, 90)),
            "return_fee": draw.randint(150, 950) / 100,
        }
        for made_for in MADE_FOR
        for thing in THINGS
    ]
    tickets = [
        {
            "number": number,
            "customer": customer,
            "topic": draw.choice(TOPICS),
            "agent": draw.choice(AGENTS),
        }
        for number, customer in zip(
            draw.sample(range(100, 1000), 60), draw.sample([f"{a} {b}" for a in FIRST for b in LAST], 60), strict=True
        )
    ]
    return {"orders": orders, "products": products, "tickets": tickets}


def to_sql(shop: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """The database as statements."""
    kinds = {int: "INTEGER", float: "REAL", str: "TEXT"}
    for table, rows in shop.items():
        columns = ", ".join(f"{name} {kinds[type(value)]} NOT NULL" for name, value in rows[0].items())
        yield f"CREATE TABLE {table} ({columns});"
        for row in rows:
            values = ", ".join(f"'{value}'" if isinstance(value, str) else str(value) for value in row.values())
            yield f"INSERT INTO {table} VALUES ({values});"


def make_questions(shop: dict[str, list[dict[str, Any]]], draw: random.Random) -> Iterator[dict[str, Any]]:
    """Questions with what a right answer is, without ids."""
    for index, row in enumerate(shop["orders"]):
        facts = {"status": row["status"], "arrival": row["arrives"]}
        calls = [{"name": "find_order", "arguments": {"number": row["number"]}}]
        yield question(("status", "arrival")[index % 2], row, facts, calls, draw)
    for index, row in enumerate(shop["products"]):
        facts = {"price": f"{row['price']:.2f}", "stock": str(row["stock"])}
        calls = [{"name": "find_product", "arguments": {"name": row["name"]}}]
        yield question(("price", "stock")[index % 2], row, facts, calls, draw)
        terms = {"days": str(row["return_days"]), "fee": f"{row['return_fee']:.2f}"}
        calls = [{"name": "ask_returns"}, {"name": "return_terms", "arguments": {"product": row["name"]}}]
        for kind in ("days", "fee") if index % 2 else (("days", "fee")[index // 2 % 2],):
            yield question(kind, row, terms, calls, draw)
    for index, row in enumerate(shop["tickets"]):
        facts = {"topic": row["topic"], "agent": row["agent"]}
        calls = [{"name": "find_ticket", "arguments": {"customer": row["customer"]}}]
        yield question(("topic", "agent")[index % 2], row, facts, calls, draw)


def interleaved(questions: Iterable[dict[str, Any]], draw: random.Random) -> list[dict[str, Any]]:
    """In random order, each kind spread evenly over the whole, so that any few of them in a row are of all kinds."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for one in questions:
        kinds.setdefault(one["metadata"]["kind"], []).append(one)
    placed = [
        ((rank + draw.random()) / len(members), one)
        for members in kinds.values()
        for rank, one in enumerate(draw.sample(members, len(members)))
    ]
    return [one for _, one in sorted(placed, key=lambda item: item[0])]


def question(
    kind: str, row: dict[str, Any], facts: dict[str, str], calls: list[dict[str, Any]], draw: random.Random
) -> dict[str, Any]:
    """One question about one fact of a row."""
    return {
        "input": draw.choice(KINDS[kind]).format(**row),
        "expected": {"calls": calls, "answer": facts[kind]},
        "metadata": {"tool": calls[0]["name"], "kind": kind},
    }


if __name__ == "__main__":
    main()
