"""Scenarios written by a language model, batch by batch, until there are enough or no new ones come.

    brief ─► a batch of requests ─► each checked: form, known tools, nothing like it before ─► appended to the file

What was refused is counted by reason; fewer scenarios than asked for is told, with why.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from art_core.errors import InputError, JudgeError
from art_core.judging.asking import Asker
from art_core.messages import canonical_json
from art_core.scenario import Scenario

from .brief import Brief, Flaw, Request, messages_of, read_requests
from .shelf import Shelf
from .similar import Known

__all__ = ["Written", "write_more"]

_BATCH = 10
_FRUITLESS = 3


@dataclass(slots=True, kw_only=True)
class Written:
    """What came of it."""

    refused: Counter[str] = field(default_factory=Counter)
    """Reason → how many entries of the answers were left out."""
    shortfall: str | None = None
    """Why there are fewer than asked for; None if there are not."""


async def write_more(
    asker: Asker,
    brief: Brief,
    count: int,
    shelf: Shelf,
    *,
    on_progress: Callable[[int, int], None] = lambda done, of: None,
) -> Written:
    """Fill ``shelf`` up to ``count`` scenarios.

    Every scenario has in ``metadata`` its ``difficulty`` (1 to 5), the ``tools`` it should take, and ``written``: the model, the brief's key and the batch.

    Raises:
        InputError: ``count`` is not positive.
    """
    if count < 1:
        raise InputError(f"the number of scenarios must be at least 1, got {count!r}")
    done = Written()
    known = Known(" ".join(messages_of(scenario)) for scenario in shelf.all)
    batch, fruitless = 1 + max((s.metadata["written"]["batch"] for s in shelf.all), default=0), 0
    while len(shelf.kept) < count and fruitless < _FRUITLESS:
        wanted = min(_BATCH, count - len(shelf.kept))
        try:
            entries = await asker.usable(brief.asking(wanted, shelf.all), brief.schema(), read_requests)
        except JudgeError as error:
            done.shortfall = f"{len(shelf.kept)} of {count} scenarios were written: {error}"
            return done
        fresh = _fresh(entries, wanted, brief, known, done.refused)
        written = {"model": asker.judge.name, "brief": brief.key, "batch": batch}
        for request in fresh:
            shelf.add(_scenario(request, written))
        on_progress(len(shelf.kept), count)
        batch, fruitless = batch + 1, 0 if fresh else fruitless + 1
    if len(shelf.kept) < count:
        why = ", ".join(f"{number} {reason}" for reason, number in done.refused.most_common(2))
        done.shortfall = f"{len(shelf.kept)} of {count} scenarios were written: {fruitless} batches in a row brought no new one ({why})"
    return done


def _fresh(entries: list[object], wanted: int, brief: Brief, known: Known, refused: Counter[str]) -> list[Request]:
    """The entries that can be used, ``wanted`` at most; the others are counted by reason."""
    fresh: list[Request] = []
    for entry in entries:
        try:
            request = brief.accept(entry)
            text = " ".join(request.messages)
            if len(fresh) == wanted:
                raise Flaw("more than were asked for")
            if known.like(text) is not None:
                raise Flaw("like one that is there already")
        except Flaw as flaw:
            refused[str(flaw)] += 1
            continue
        known.add(text)
        fresh.append(request)
    return fresh


def _scenario(request: Request, written: dict[str, object]) -> Scenario:
    number = hashlib.sha256(canonical_json(list(request.messages)).encode()).hexdigest()[:10]
    metadata = {"difficulty": request.difficulty, "tools": list(request.tools), "written": written}
    return Scenario(f"w{number}", request.input, metadata=metadata)
