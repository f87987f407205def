"""The ledger: every sampled rollout and every sampled token has exactly one fate, and the sums must agree.

``sampled + carried_in = trained + no_spread + stale + failed + unscored + not_selected + superseded + over_long +
not_trainable + carried_out``, in rollouts and, separately, in tokens. What is true of a rollout or token besides its
fate (it was truncated, a ratio rule masked it) is an *attribute*: counted, and outside of the equation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from art_core.errors import ArtError, InputError

__all__ = [
    "ATTRIBUTES",
    "FATES",
    "MEANINGS",
    "SOURCES",
    "Attribute",
    "Count",
    "Fate",
    "Ledger",
    "LedgerError",
    "Source",
]

Source = Literal["sampled", "carried_in"]
Fate = Literal[
    "trained",
    "no_spread",
    "stale",
    "failed",
    "unscored",
    "not_selected",
    "superseded",
    "over_long",
    "not_trainable",
    "carried_out",
]
Attribute = Literal["truncated", "masked_by_ratio"]

SOURCES: tuple[str, ...] = get_args(Source)
FATES: tuple[str, ...] = get_args(Fate)
ATTRIBUTES: tuple[str, ...] = get_args(Attribute)

MEANINGS: dict[str, str] = {
    "sampled": "drawn from the model in this step",
    "carried_in": "drawn in an earlier step and not used there",
    "trained": "took part in the optimizer step",
    "no_spread": "all siblings scored the same: nothing to compare",
    "stale": "drawn by weights older than allowed",
    "failed": "the rollout ended by an error",
    "unscored": "the reward or judge gave no score",
    "not_selected": "left out so that those that differ most are trained",
    "superseded": "drawn again, because a node or a request was started over",
    "over_long": "longer than a training row may be",
    "not_trainable": "drawn greedily, from a truncated distribution, without a finite logprob, or cut off by a time limit",
    "carried_out": "kept for a later step",
    "truncated": "a turn ran out of tokens",
    "masked_by_ratio": "trained, but left out of the loss: trainer and sampler see it too differently",
}
"""One plain sentence for every source, fate and attribute."""


class LedgerError(ArtError):
    """What came in and what became of it do not add up; the message names the difference."""


@dataclass(slots=True)
class Count:
    """So many rollouts and so many tokens."""

    rollouts: int = 0
    tokens: int = 0


@dataclass(slots=True)
class Ledger:
    """The account of one step, or with ``+`` of several.

    >>> ledger = Ledger()
    >>> ledger.add_rollout("trained", sampled_tokens=12, trained_tokens=10)
    >>> ledger.add_rollout("no_spread", sampled_tokens=7)
    >>> ledger.check()
    >>> ledger["sampled"].tokens, ledger["trained"].tokens, ledger["not_trainable"].tokens
    (19, 10, 2)
    """

    _counts: dict[str, Count] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Count:
        """The count of a source, fate or attribute; zeros if nothing was added.

        Raises:
            InputError: nobody knows that name.
        """
        if name not in MEANINGS:
            raise InputError(f"{name!r} is not a row of the ledger; valid ones: {', '.join(MEANINGS)}")
        return self._counts.get(name) or Count()

    def add(self, name: Source | Fate | Attribute, *, rollouts: int = 0, tokens: int = 0) -> None:
        """Add to one row.

        Raises:
            InputError: an unknown row or a negative number.
        """
        if rollouts < 0 or tokens < 0:
            raise InputError(f"ledger row {name!r} cannot grow by {rollouts} rollouts and {tokens} tokens")
        count = self[name]
        self._counts[name] = Count(count.rollouts + rollouts, count.tokens + tokens)

    def add_rollout(
        self,
        fate: Fate,
        *,
        sampled_tokens: int,
        trained_tokens: int | None = None,
        superseded_tokens: int = 0,
        source: Source = "sampled",
        truncated: bool = False,
    ) -> None:
        """Enter one rollout with its source and its fate.

        ``superseded_tokens`` of it are superseded whatever becomes of the rollout. Of a trained rollout, ``trained_tokens`` (None:
        all others) are trained and the rest of its tokens are not trainable.

        Raises:
            InputError: more tokens superseded or trained than sampled, or trained tokens of a rollout with another fate.
        """
        others = sampled_tokens - superseded_tokens
        if not 0 <= superseded_tokens <= sampled_tokens:
            raise InputError(f"a rollout of {sampled_tokens} sampled tokens cannot have {superseded_tokens} superseded")
        if trained_tokens is not None and (fate != "trained" or not 0 <= trained_tokens <= others):
            raise InputError(f"a {fate} rollout of {others} sampled tokens cannot have {trained_tokens} trained")
        own = others if trained_tokens is None else trained_tokens
        self.add(source, rollouts=1, tokens=sampled_tokens)
        self.add(fate, rollouts=1, tokens=own)
        self.add("superseded", tokens=superseded_tokens)
        self.add("not_trainable", tokens=others - own)
        if truncated:
            self.add("truncated", rollouts=1, tokens=sampled_tokens)

    def total(self, names: tuple[str, ...]) -> Count:
        """The sum over some rows."""
        counts = [self[name] for name in names]
        return Count(sum(c.rollouts for c in counts), sum(c.tokens for c in counts))

    def check(self) -> None:
        """Make sure that what came in equals what became of it.

        Raises:
            LedgerError: it does not; the message names the difference in rollouts or tokens.
        """
        came, went = self.total(SOURCES), self.total(FATES)
        for unit, inward, outward in (
            ("rollouts", came.rollouts, went.rollouts),
            ("tokens", came.tokens, went.tokens),
        ):
            if inward != outward:
                what = "without a fate" if inward > outward else "with more than one fate"
                raise LedgerError(
                    f"the ledger does not balance: {inward} {unit} came in, {outward} are accounted for; "
                    f"{abs(inward - outward)} {unit} {what}"
                )

    def __add__(self, other: Ledger) -> Ledger:
        if not isinstance(other, Ledger):
            return NotImplemented
        merged = Ledger()
        for name in MEANINGS:
            one, two = self[name], other[name]
            if (one.rollouts, one.tokens, two.rollouts, two.tokens) != (0, 0, 0, 0):
                merged._counts[name] = Count(one.rollouts + two.rollouts, one.tokens + two.tokens)
        return merged

    def settled(self) -> Ledger:
        """The account of a whole run: what one step carried out and another carried in is counted once, by its fate."""
        came, went = self["carried_in"], self["carried_out"]
        rollouts, tokens = min(came.rollouts, went.rollouts), min(came.tokens, went.tokens)
        settled = self + Ledger()
        settled._counts["carried_in"] = Count(came.rollouts - rollouts, came.tokens - tokens)
        settled._counts["carried_out"] = Count(went.rollouts - rollouts, went.tokens - tokens)
        return settled

    def to_dict(self) -> dict[str, dict[str, int]]:
        """``{"rollouts": {row: n}, "tokens": {row: n}}``: every source and fate, attributes where they occurred."""
        names = [*SOURCES, *FATES, *(name for name in ATTRIBUTES if name in self._counts)]
        return {
            "rollouts": {name: self[name].rollouts for name in names},
            "tokens": {name: self[name].tokens for name in names},
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Ledger:
        """Read what ``to_dict`` wrote.

        Raises:
            InputError: a row nobody knows, or a count that is not a whole number of 0 or more.
        """
        ledger = cls()
        for unit in ("rollouts", "tokens"):
            for name, value in (record.get(unit) or {}).items():
                if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                    raise InputError(f"ledger row {name!r} has {value!r} {unit}; a whole number of 0 or more is needed")
                count = ledger[name]
                setattr(count, unit, value)
                ledger._counts[name] = count
        return ledger

    def rows(self) -> list[tuple[str, int, int]]:
        """``(row, rollouts, tokens)`` for printing: sources, fates, attributes; rows of zeros left out but for two."""
        always = ("sampled", "trained")
        return [
            (name, self[name].rollouts, self[name].tokens)
            for name in MEANINGS
            if name in always or self[name].rollouts or self[name].tokens
        ]
