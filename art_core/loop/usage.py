"""What rollouts used: model calls, tokens, money and time. What is not known stays unknown: it is never counted as nothing.

A call that failed and tells no tokens is counted as failed and not as used: providers do not charge for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from art_core.errors import InputError
from art_core.rewards.account import Price
from art_core.trajectory.graph import TokenGraph, Turn
from art_core.trajectory.trajectory import Trajectory

__all__ = ["CallUsage", "calls_of", "cost_of", "parse_prices", "usage_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallUsage:
    """One model call."""

    model: str | None
    """What it was asked of, as ``provider/model`` or as the agent names it; None for the model in training."""
    input_tokens: int | None
    output_tokens: int | None
    failed: bool = False
    """It failed, and how many tokens it took is not told."""


def calls_of(trajectory: Trajectory) -> Iterator[CallUsage]:
    """The turns and the calls of the agent's own models."""
    for turn in trajectory.graph:
        yield _of_turn(turn, trajectory.graph)
    for call in trajectory.model_calls:
        model = call.metadata.get("model")
        yield CallUsage(
            model=None if model is None else str(model),
            input_tokens=call.input_tokens,
            output_tokens=call.output_tokens,
            failed=call.error is not None and call.input_tokens is None and call.output_tokens is None,
        )


def usage_of(trajectories: Sequence[Trajectory]) -> dict[str, Any]:
    """``model_calls``, the ``failed_calls`` among them; ``tokens`` of ``input`` and ``output``, null where a call does not tell its own; ``latency_s``, the ``p50`` and
    ``p95`` of the seconds of a task."""
    calls = [call for trajectory in trajectories for call in calls_of(trajectory)]
    seconds = [trajectory.seconds for trajectory in trajectories]
    quantiles = np.percentile(seconds, (50, 95)) if seconds else (None, None)
    return {
        "model_calls": len(calls),
        "failed_calls": sum(call.failed for call in calls),
        "tokens": {
            "input": _total([call.input_tokens for call in calls if not call.failed]),
            "output": _total([call.output_tokens for call in calls if not call.failed]),
        },
        "latency_s": {
            name: None if value is None else round(float(value), 3)
            for name, value in zip(("p50", "p95"), quantiles, strict=True)
        },
    }


def cost_of(
    trajectories: Sequence[Trajectory], prices: Mapping[str, Price], *, trained: str = "trained"
) -> float | None:
    """US dollars for a thousand tasks like these; None where a price or the tokens of a call are not known.

    Args:
        prices: by model; ``provider/model`` is found by ``model`` too.
        trained: the name in ``prices`` of the model in training.
    """
    total = 0.0
    for trajectory in trajectories:
        for call in calls_of(trajectory):
            if call.failed:
                continue
            price = _price(call.model or trained, prices)
            if price is None or call.input_tokens is None or call.output_tokens is None:
                return None
            total += price.of(call.input_tokens, call.output_tokens)
    return 1000 * total / len(trajectories) if trajectories else None


def parse_prices(given: Sequence[str]) -> dict[str, Price]:
    """Prices by model, of texts such as ``openai/gpt-5-mini=0.25,2``.

    Raises:
        InputError: another form.

    >>> parse_prices(["openai/gpt-5-mini=0.25,2"])["openai/gpt-5-mini"].output
    2.0
    """
    prices = {}
    for text in given:
        model, _, numbers = text.rpartition("=")
        price = Price.read(numbers)
        if not model or price is None:
            raise InputError(
                f"price {text!r} is not of the form MODEL=IN,OUT: US dollars for a million tokens in and out, such as "
                "openai/gpt-5-mini=0.25,2"
            )
        prices[model] = price
    return prices


def _of_turn(turn: Turn, graph: TokenGraph) -> CallUsage:
    told = turn.metadata.get("usage")
    if told is not None:
        return CallUsage(
            model=turn.metadata.get("model"), input_tokens=told["input_tokens"], output_tokens=told["output_tokens"]
        )
    sampled = len(turn.completion_ids)
    return CallUsage(model=None, input_tokens=graph.path_len(turn.id) - sampled, output_tokens=sampled)


def _price(model: str, prices: Mapping[str, Price]) -> Price | None:
    if model in prices:
        return prices[model]
    short = [price for name, price in prices.items() if name.partition("/")[2] == model]
    return short[0] if len(short) == 1 else None


def _total(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
