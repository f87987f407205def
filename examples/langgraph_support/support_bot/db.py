"""The shop's database: orders, products and support tickets in SQLite.

``SHOP_DB`` names the database file. Without it the demo data in ``shop.sql`` is used, in memory.
"""

import os
import sqlite3
from functools import lru_cache
from pathlib import Path
from typing import Any

DEMO_DATA = Path(__file__).with_name("shop.sql")


@lru_cache(maxsize=1)
def connection() -> sqlite3.Connection:
    """The one connection of the process, which only reads."""
    path = os.environ.get("SHOP_DB")
    if path:
        found = sqlite3.connect(f"file:{path}?mode=ro", uri=True, check_same_thread=False)
    else:
        found = sqlite3.connect(":memory:", check_same_thread=False)
        found.executescript(DEMO_DATA.read_text(encoding="utf-8"))
    found.row_factory = sqlite3.Row
    return found


def order(number: int) -> dict[str, Any] | None:
    """An order by its number."""
    return _one("SELECT status, arrives FROM orders WHERE number = ?", number)


def product(name: str) -> dict[str, Any] | None:
    """A product by its name, in any case."""
    return _one(
        "SELECT price, stock, return_days, return_fee FROM products WHERE name = ? COLLATE NOCASE", name.strip()
    )


def ticket(customer: str) -> dict[str, Any] | None:
    """The open ticket of a customer, by the customer's full name."""
    return _one("SELECT number, topic, agent FROM tickets WHERE customer = ? COLLATE NOCASE", customer.strip())


def _one(query: str, value: int | str) -> dict[str, Any] | None:
    row = connection().execute(query, (value,)).fetchone()
    return None if row is None else dict(row)
