"""Tool names a chat API accepts, and the way back to the server's own names.

The map is a function of the set of (server, original name) pairs, never of their order, so that a tool keeps its name
from run to run.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable

__all__ = ["MAX_NAME", "public_names", "sanitise"]

MAX_NAME = 64
_HASH_CHARACTERS = 8
_REFUSED = re.compile(r"[^a-zA-Z0-9_-]")

Key = tuple[str, str]
"""(server name, the server's own tool name)"""


def sanitise(name: str) -> str:
    """The name with every refused character replaced by ``_``, cut to 64 characters; never empty."""
    return _REFUSED.sub("_", name)[:MAX_NAME] or "tool"


def public_names(keys: Iterable[Key], *, prefix: bool = False) -> dict[str, Key]:
    """Public name -> (server, original name), one entry per distinct key.

    A name that is fine as it is stays. One that occurs on several servers is prefixed with the server's name there (all
    of them are if ``prefix``). What still collides, because characters were replaced or cut, ends in 8 hex digits of a
    hash of the original.
    """
    distinct = sorted(set(keys))
    shared = Counter(original for _, original in distinct)
    wanted = {
        key: f"{key[0]}_{key[1]}" if prefix or shared[key[1]] > 1 else key[1]  # a clash is one of original names
        for key in distinct
    }
    clashes = Counter(sanitise(name) for name in wanted.values())
    names: dict[str, Key] = {}
    for key, name in sorted(wanted.items(), key=lambda item: (sanitise(item[1]) != item[1], item)):
        public = sanitise(name)
        if clashes[public] > 1 and (public != name or public in names):
            public = _hashed(public, key, 0)
        attempt = 0
        while public in names:
            attempt += 1
            public = _hashed(public, key, attempt)
        names[public] = key
    return names


def _hashed(name: str, key: Key, attempt: int) -> str:
    digest = hashlib.sha256("\0".join((*key, str(attempt))).encode()).hexdigest()[:_HASH_CHARACTERS]
    return f"{name[: MAX_NAME - _HASH_CHARACTERS - 1]}_{digest}"
