"""Tries expected calls on the real server, so that scenarios it would refuse can be left out.

Meant for a server that may be changed freely, in a state like that of the rollouts: calls that write do write.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from art_core.rewards.tool_call import expected_calls
from art_core.scenario import Scenario

__all__ = ["Verified", "verify"]

Call = Callable[[str, Mapping[str, Any]], Awaitable[str | None]]
"""Calls a tool; the reason if the answer is an error, else None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """Which scenarios the server can answer."""

    answered: tuple[Scenario, ...]
    refused: dict[str, str] = field(default_factory=dict)
    """Scenario id -> what the server said."""


async def verify(scenarios: Sequence[Scenario], call: Call) -> Verified:
    """Make every scenario's expected calls, one after the other, and part the answered from the refused.

    Raises:
        InputError: a scenario does not say which calls are expected.
    """
    answered: list[Scenario] = []
    refused: dict[str, str] = {}
    for scenario in scenarios:
        for name, arguments in expected_calls(scenario):
            problem = await call(name, arguments)
            if problem is not None:
                refused[scenario.id] = problem
                break
        else:
            answered.append(scenario)
    return Verified(answered=tuple(answered), refused=refused)
