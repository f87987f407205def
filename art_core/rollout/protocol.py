"""What an agent is, and what it may open for a rollout."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from art_core.scenario import Scenario

if TYPE_CHECKING:
    from .session import Session

__all__ = ["Agent", "AgentWithCheck", "AgentWithEnvironment", "AgentWithRealTools", "AgentWithTools"]

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


@runtime_checkable
class AgentWithCheck(Protocol):
    """An agent that can tell, without running, that a scenario is none it can be given."""

    def check_scenario(self, scenario: Scenario) -> None:
        """Asked of every scenario before anything expensive; is to be fast and to change nothing.

        Raises:
            InputError: the agent cannot be run on ``scenario``.
        """
        ...

    async def __call__(self, scenario: Scenario, session: Session) -> Any: ...


@runtime_checkable
class AgentWithRealTools(Protocol):
    """An agent whose tools run as in production, and that can name them before the first rollout."""

    async def tools_found(self) -> Mapping[str, str]:
        """Tool → ``real`` if it will really run, else what answers in its place; those that can be found without running.

        Raises:
            InputError: one that would really run can do harm and was not allowed to.
        """
        ...

    async def __call__(self, scenario: Scenario, session: Session) -> Any: ...


@runtime_checkable
class AgentWithTools(Protocol):
    """An agent that can keep what its tools answered, so that a rollout that is made again sees the same answers."""

    def keep_answers(self, path: Path) -> None:
        """From now on append every answer to ``path``, and answer from it a call that a rollout of the same id made
        before, after the same calls."""
        ...

    async def __call__(self, scenario: Scenario, session: Session) -> Any: ...
