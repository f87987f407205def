"""What a judge cost: calls, tokens, money; and the budget it may not exceed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Account", "Price"]


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens."""

    input: float
    output: float

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """What so many tokens cost, in US dollars.

        >>> Price(input=0.25, output=2).of(8_000, 500)
        0.003
        """
        return (input_tokens * self.input + output_tokens * self.output) / 1e6

    @classmethod
    def read(cls, text: str) -> Price | None:
        """A price from ``IN,OUT``; None unless that is two numbers of 0 or more.

        >>> Price.read("0.25,2"), Price.read("free")
        (Price(input=0.25, output=2.0), None)
        """
        try:
            into, out = map(float, text.split(","))
        except ValueError:
            return None
        return cls(into, out) if 0 <= into < math.inf and 0 <= out < math.inf else None


@dataclass(slots=True, kw_only=True)
class Account:
    """Counts since the judge was made; ``minus`` gives those of a stretch."""

    calls: int = 0
    """Requests that were answered."""
    failed: int = 0
    """Requests that were not."""
    refused: int = 0
    """Answers that could not be used."""
    cached: int = 0
    """Votes that were known already."""
    groups: int = 0
    """Groups that were scored."""
    not_sent: int = 0
    """Groups in which there was nothing to compare."""
    unscored: int = 0
    """Groups that ended without a score."""
    input_tokens: int = 0
    output_tokens: int = 0
    estimated_calls: int = 0
    """Calls whose tokens are estimates, since the judge does not tell."""
    usd: float | None = None
    """None without a price."""

    def count(
        self,
        input_tokens: int | None,
        output_tokens: int | None,
        *,
        estimated: tuple[int, int],
        price: Price | None,
    ) -> None:
        """One answered request, with the tokens as the judge tells them, or else ``estimated``."""
        used = (
            estimated[0] if input_tokens is None else input_tokens,
            estimated[1] if output_tokens is None else output_tokens,
        )
        self.calls += 1
        self.estimated_calls += input_tokens is None or output_tokens is None
        self.input_tokens += used[0]
        self.output_tokens += used[1]
        if price is not None:
            self.usd = (self.usd or 0.0) + price.of(*used)

    def minus(self, earlier: Account) -> Account:
        """What happened since ``earlier``."""
        told, before = asdict(self), asdict(earlier)
        return Account(**{name: _less(value, before[name]) for name, value in told.items()})

    def copy(self) -> Account:
        return Account(**asdict(self))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for metrics.jsonl and summary.json."""
        return asdict(self)

    @classmethod
    def together(cls, told: list[Mapping[str, Any]]) -> Account:
        """The sum of what ``to_dict`` gave."""
        total = cls()
        for one in told:
            for name, value in one.items():
                if value is not None:
                    setattr(total, name, (getattr(total, name) or 0) + value)
        return total


def _less(value: Any, before: Any) -> Any:
    return None if value is None else value - (before or 0)
