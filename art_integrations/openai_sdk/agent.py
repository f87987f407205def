"""A Python program as an agent: nothing in it is changed, what it asks through the ``openai`` SDK becomes turns of the rollout."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from art_core.cli.references import load_reference
from art_core.errors import InputError
from art_core.loop.ending import release
from art_core.rollout.selection import Select, SelectingAgent
from art_core.rollout.session import Session
from art_core.scenario import Scenario

from .hook import install

__all__ = ["PythonAgent", "takes_session"]


class PythonAgent(SelectingAgent):
    """See ``rollout.protocol.Agent``. Its output is what the program returns.

    Args:
        function: the program, or ``"package.module:name"`` of one: a function of a scenario's input, or of (scenario, session); a
            sync one runs in a thread of its own.
        input: makes what the program is called with from a scenario; the scenario's input unless given.
        train: which model calls are trained: the name of a model, several of them, such names and the adapter of each, or a
            function of what ``caller.describe_caller`` tells; all unless given. The others run as in production.

    Raises:
        InputError: no such function there, or an argument that cannot be used.
    """

    def __init__(
        self,
        function: Callable[..., Any] | str,
        *,
        input: Callable[[Scenario], Any] | None = None,
        train: Select | None = None,
    ) -> None:
        found = load_reference(function, what="agent") if isinstance(function, str) else function
        self._function = found
        self._takes_session = takes_session(found)
        if self._takes_session and input is not None:
            raise InputError(
                f"input makes what a function of one argument is called with; {found!r} takes (scenario, session)"
            )
        self._input = input
        super().__init__(train)
        install()

    def __call__(self, scenario: Scenario, session: Session) -> Any:
        """Run the program once; of an async one, what is to be awaited."""
        session.selection = self._selection
        if self._takes_session:
            return self._function(scenario, session)
        return self._function(scenario.input if self._input is None else self._input(scenario))

    async def close(self) -> None:
        """Called at the end of a run: a program with an async ``close`` of its own lets go of what it holds."""
        await release(self._function)


def takes_session(function: Any) -> bool:
    """Whether ``function`` is an agent of (scenario, session), and not a program of one argument.

    Raises:
        InputError: it is neither.
    """
    if not callable(function):
        raise InputError(f"agent {function!r} is a {type(function).__name__}, which cannot be called")
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a built-in that does not tell
        return True
    placed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in placed if p.default is p.empty]
    most = float("inf") if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(placed)
    strict = any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters)
    if strict or len(needed) > 2 or most < 1:
        raise InputError(
            f"agent {function!r} cannot be called with a scenario's input alone, nor with (scenario, session); write a function of "
            "the input that calls it"
        )
    return len(needed) == 2 or (most >= 2 and (not placed or any(p.name == "session" for p in placed)))
