"""What an agent is, and what it may open for a rollout."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from art_core.scenario import Scenario

if TYPE_CHECKING:
    from .session import Session

__all__ = ["Agent", "AgentWithEnvironment"]

Agent = Callable[[Scenario, "Session"], "Any | Awaitable[Any]"]
"""Any callable. A sync one runs in a worker thread with the caller's context. It talks to the model through the session."""


@runtime_checkable
class AgentWithEnvironment(Protocol):
    """An agent that opens something per rollout (server sessions, a work directory) that rewards may inspect.

    The runner enters ``open`` before the call and leaves it after the per-trajectory reward has run, always, with a
    bound on the time it may take. The entered value becomes ``trajectory.environment``.
    """

    def open(self, scenario: Scenario, session: Session) -> AbstractAsyncContextManager[Any]: ...

    async def __call__(self, scenario: Scenario, session: Session) -> Any: ...
