"""Which tools can do harm when a model that explores calls them, as far as their hints and their names tell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["hinted_hazard", "named_hazard"]

_READS = frozenset(
    {
        *("get", "list", "read", "search", "find", "look", "lookup", "fetch", "query", "show", "view", "preview"),
        *("describe", "check", "count", "compare", "calculate", "compute", "validate", "explain", "summarize"),
        *("suggest", "ask", "is", "has"),
    }
)
_CHANGES = frozenset(
    {
        *("delete", "remove", "drop", "destroy", "erase", "wipe", "purge", "truncate", "revoke", "uninstall", "reset"),
        *("write", "update", "insert", "overwrite", "edit", "modify", "rename", "upsert", "replace", "create"),
        *("send", "publish", "tweet", "notify", "submit", "upload", "reply", "pay", "charge", "refund", "transfer"),
        *("withdraw", "deposit", "purchase", "buy", "sell", "checkout", "payment", "cancel", "terminate", "kill"),
        *("shutdown", "restart", "reboot", "disable", "suspend", "deploy", "execute", "exec", "approve", "grant"),
    }
)
_CHANGES_AT_FIRST = frozenset(
    {
        *("order", "book", "post", "mail", "email", "set", "move", "add", "put", "run", "close", "clear", "stop"),
        *("share", "reserve", "schedule", "change", "push", "merge", "patch", "issue", "assign", "install", "save"),
        *("store", "click"),
    }
)
_JOINS = frozenset({"and", "or", "then"})
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def hinted_hazard(annotations: Mapping[str, Any]) -> str | None:
    """Why the annotations of a tool of an MCP server say that it can do harm; None if they do not. A hint that is not given
    counts as no."""
    if annotations.get("destructiveHint") is True and annotations.get("readOnlyHint") is not True:
        return "its server says that it is destructive"
    if annotations.get("openWorldHint") is True:
        return "its server says that it reaches the open world"
    return None


def named_hazard(name: str) -> str | None:
    """Why the name of a tool says that it changes something outside of the conversation; None if it does not.

    The words of the name (``send_mail``, ``sendMail``) are read from the left. The first that only reads (``get``, ``search``) makes
    it harmless, unless the name joins several verbs (``find_and_delete``); the first that changes something (``delete``,
    ``refund``) makes it destructive. Words that are as often nouns (``order``, ``book``, ``post``) count as the first one only, and
    ``add`` alone adds numbers.

    >>> named_hazard("stripe_refund"), named_hazard("get_refund_policy")
    ("its name says 'refund'", None)
    """
    words = [word.lower() for word in _WORD.findall(name)]
    if words == ["add"]:
        return None
    joined = not _JOINS.isdisjoint(words)
    for place, word in enumerate(words):
        if word in _READS and not joined:
            return None
        if word in _CHANGES or (place == 0 and word in _CHANGES_AT_FIRST):
            return f"its name says {word!r}"
    return None
