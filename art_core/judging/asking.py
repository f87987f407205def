"""Asking a judge until its answer can be used: bounded in attempts, in requests at once and a minute, and in money."""

from __future__ import annotations

import asyncio
import contextlib
import math
import weakref
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aiolimiter import AsyncLimiter

from art_core.errors import InputError, JudgeError
from art_core.rewards.account import Account, Price

from .base_judge import BaseJudge
from .prompt import estimate_tokens
from .protocol import Answer, Judge, Messages
from .reply import Score, read_scores, reply_schema

__all__ = ["Asker", "Bounds"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What asking may take.

    Raises:
        InputError: a count below 1, or a budget without a price.
    """

    attempts: int = 3
    concurrency: int = 8
    requests_per_minute: float | None = None
    max_reply_tokens: int = 4_000
    seconds: float = 120.0
    price: Price | None = None
    budget: float | None = None
    """US dollars."""

    def __post_init__(self) -> None:
        for name in ("attempts", "concurrency", "max_reply_tokens"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InputError(f"{name} of a judge must be a whole number of at least 1, got {value!r}")
        if self.requests_per_minute is not None and not self.requests_per_minute > 0:
            raise InputError(f"requests_per_minute of a judge must be above 0, got {self.requests_per_minute!r}")
        if self.budget is not None and self.price is None:
            raise InputError(
                f"a judge's budget of {self.budget!r} USD needs price, US dollars for a million tokens in and out"
            )


class Asker:
    """One judge, and the account of what it was asked."""

    def __init__(self, judge: Judge, bounds: Bounds) -> None:
        self.judge, self.bounds = judge, bounds
        self.account = Account(usd=None if bounds.price is None else 0.0)
        self.exhausted: str | None = None
        """Why nothing is asked any more; None while the budget lasts."""
        self._gates: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Gate] = weakref.WeakKeyDictionary()

    async def scores(self, messages: Messages, names: Sequence[str]) -> dict[str, Score]:
        """What the judge says of ``names``; see ``usable``."""
        return await self.usable(messages, reply_schema(names), lambda text: read_scores(text, names))

    async def usable(self, messages: Messages, schema: Mapping[str, Any], read: Callable[[str], T]) -> T:
        """What ``read`` makes of the reply; after one that it raises ``JudgeError`` for, the judge is asked again and told why.

        Raises:
            JudgeError: it does not answer, not so that it can be used, or the budget is used up.
        """
        said = list(messages)
        problem: JudgeError | None = None
        for _ in range(self.bounds.attempts):
            answer = await self._answer(said, schema)
            try:
                if not answer.finished:
                    length = answer.output_tokens or self.bounds.max_reply_tokens
                    raise JudgeError(f"the reply was cut off after {length} tokens; be brief")
                return read(answer.text)
            except JudgeError as error:
                self.account.refused += 1
                problem = error
                told = f"That cannot be used: {error}. Answer again, with the JSON object alone."
                said = [*messages, {"role": "assistant", "content": answer.text}, {"role": "user", "content": told}]
        raise JudgeError(
            f"{self.judge.name} gave no usable reply in {self.bounds.attempts} attempts: {problem}"
        ) from problem

    def excess(self, messages: Messages) -> float:
        """How many times the judge's room for a prompt the messages take, as far as that is known here."""
        judge = self.judge
        return judge.excess(messages, self.bounds.max_reply_tokens) if isinstance(judge, BaseJudge) else 0.0

    async def close(self) -> None:
        """Close what the judge holds open."""
        if (close := getattr(self.judge, "close", None)) is not None:
            await close()

    async def _answer(self, messages: Messages, schema: Mapping[str, Any]) -> Answer:
        asked = sum(estimate_tokens(message["content"]) for message in messages)
        bounds = self.bounds
        async with self._gate() as gate, self._paid_for(asked, gate):
            try:
                answer = await self.judge.ask(
                    messages, schema=schema, max_tokens=bounds.max_reply_tokens, seconds=bounds.seconds
                )
            except JudgeError:
                self.account.failed += 1
                raise
            self.account.count(
                answer.input_tokens,
                answer.output_tokens,
                estimated=(asked, estimate_tokens(answer.text)),
                price=bounds.price,
            )
        return answer

    @contextlib.asynccontextmanager
    async def _paid_for(self, input_tokens: int, gate: _Gate) -> AsyncIterator[None]:
        """Set aside what a request may cost at most, and wait for that while others hold it.

        Raises:
            JudgeError: the budget does not hold it any more.
        """
        bounds, most = self.bounds, 0.0
        if bounds.budget is not None and bounds.price is not None:
            most = bounds.price.of(input_tokens, bounds.max_reply_tokens)
            await gate.ended.acquire()
            try:
                await gate.ended.wait_for(lambda: not gate.reserved or self._left() >= gate.reserved + most)
                if self._left() < most:
                    self.exhausted = f"the judge's budget of {bounds.budget:g} USD is used up"
                    raise JudgeError(self.exhausted)
                gate.reserved += most
            finally:
                gate.ended.release()
        try:
            yield
        finally:
            gate.reserved -= most
            async with gate.ended:
                gate.ended.notify_all()

    def _left(self) -> float:
        return math.inf if self.bounds.budget is None else self.bounds.budget - (self.account.usd or 0.0)

    def _gate(self) -> _Gate:
        """What bounds the requests made in the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._gates:
            rate = self.bounds.requests_per_minute
            limiter = None if rate is None else AsyncLimiter(max(1.0, rate), 60 if rate >= 1 else 60 / rate)
            self._gates[loop] = _Gate(asyncio.Semaphore(self.bounds.concurrency), limiter)
        return self._gates[loop]


@dataclass(slots=True)
class _Gate:
    """So many requests at once, and so many a minute."""

    slots: asyncio.Semaphore
    limiter: AsyncLimiter | None
    reserved: float = 0.0
    """US dollars set aside for requests that are under way."""
    ended: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def __aenter__(self) -> _Gate:
        await self.slots.acquire()
        try:
            if self.limiter is not None:
                await self.limiter.acquire()
        except BaseException:
            self.slots.release()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        self.slots.release()
