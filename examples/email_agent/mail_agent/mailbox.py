"""The mail in SQLite, with full-text search over all of it, one mailbox a person.

``MAIL_DB`` names the database file. Without it the demo mail is used, in memory.
"""

import os
import re
import sqlite3
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from .demo import Message, demo

SCHEMA = """
CREATE VIRTUAL TABLE mail USING fts5(
    subject, body, sender, recipients, sent UNINDEXED, id UNINDEXED, tokenize = 'porter unicode61'
);
"""
MOST = 10
"""Results of a search."""

_SEARCH = """
SELECT id, sent, sender, subject, snippet(mail, 1, '', '', '...', 8) AS snippet FROM mail
WHERE mail MATCH ? AND (sender = ? OR instr(recipients, ?)) AND sent >= ? AND sent < ? ORDER BY rank, sent LIMIT ?
"""
_READ = "SELECT * FROM mail WHERE id = ? AND (sender = ? OR instr(recipients, ?))"


@lru_cache(maxsize=1)
def connection() -> sqlite3.Connection:
    """The one connection of the process, which only reads."""
    path = os.environ.get("MAIL_DB")
    if path:
        found = sqlite3.connect(f"file:{path}?mode=ro", uri=True, check_same_thread=False)
    else:
        found = fill(sqlite3.connect(":memory:", check_same_thread=False), demo()[0])
    found.row_factory = sqlite3.Row
    return found


def fill(database: sqlite3.Connection, messages: Iterable[Message]) -> sqlite3.Connection:
    """Make an empty database a mailbox with these messages."""
    database.executescript(SCHEMA)
    rows = ((one.subject, one.body, one.sender, _framed(one.recipients), one.sent, one.id) for one in messages)
    database.executemany("INSERT INTO mail VALUES (?, ?, ?, ?, ?, ?)", rows)
    database.commit()
    return database


def search(inbox: str, keywords: str, after: str = "", before: str = "", sender: str = "") -> list[dict[str, Any]]:
    """The best matches in the mailbox of ``inbox``, at most ``MOST``: those that have every keyword.

    Args:
        after, before: ISO dates; the first day that counts, and the first that does not any more.
        sender: words of the sender's address.
    """
    words = [f'"{word}"' for word in _words(keywords)] + [f'sender : "{word}"' for word in _words(sender)]
    if not words:
        return []
    match = " AND ".join(words)
    rows = connection().execute(_SEARCH, (match, inbox, f" {inbox} ", after, before or "9", MOST))
    return [dict(row) for row in rows]


def read(inbox: str, message_id: str) -> dict[str, Any] | None:
    """A message of the mailbox of ``inbox``, by its id."""
    row = connection().execute(_READ, (message_id.strip(), inbox, f" {inbox} ")).fetchone()
    return None if row is None else dict(row)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def _framed(addresses: Iterable[str]) -> str:
    """Addresses in one text in which each can be told from a longer one."""
    return f" {' '.join(addresses)} "
