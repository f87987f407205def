"""The tools of a graph in a rollout: which are replaced, which may really run, and a record of every call."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.types import Command
from pydantic import ValidationError

from art_core.errors import InputError, describe
from art_core.rollout.hazards import hinted_hazard, named_hazard
from art_core.rollout.session import Session
from art_core.trajectory.trajectory import ToolEvent

from .substitutes import Replay, Stub, check_stub, substitute

__all__ = ["AnsweredBy", "RolloutTools", "Tooling", "hazard", "ToolCallInProgress"]

AnsweredBy = Literal["real", "stub", "replay"]
"""What answers the calls of a tool."""
_NAME = "langgraph.tools"


class Tooling:
    """What an agent was told about its graph's tools.

    Args:
        stubs: tool → what answers in its place.
        allow_destructive: whether tools that can do harm may really run; or the names of those that may.

    Raises:
        InputError: a stub that can answer nothing, or names that are none.
    """

    def __init__(self, stubs: Mapping[str, Stub] | None, allow_destructive: bool | Collection[str]) -> None:
        if stubs is not None and not isinstance(stubs, Mapping):
            raise InputError(f"tools must give tools by name what answers in their place, got {stubs!r}")
        self.stubs = dict(stubs or {})
        for name, stub in self.stubs.items():
            check_stub(name, stub)
        names = {allow_destructive} if isinstance(allow_destructive, str) else allow_destructive
        if not isinstance(names, bool | Collection) or (
            not isinstance(names, bool) and not all(isinstance(name, str) for name in names)
        ):
            raise InputError(f"allow_destructive must be true, false or names of tools, got {allow_destructive!r}")
        self._allowed = names

    def answered_by(self, name: str) -> AnsweredBy:
        """What answers the calls of a tool."""
        if name not in self.stubs:
            return "real"
        return "replay" if isinstance(self.stubs[name], Replay) else "stub"

    def check(self, tool: BaseTool) -> None:
        """
        Raises:
            InputError: the tool would really run, can do harm, and is not allowed to; the message says what to do.
        """
        allowed = self._allowed if isinstance(self._allowed, bool) else tool.name in self._allowed
        why = None if allowed or tool.name in self.stubs else hazard(tool)
        if why is not None:
            raise InputError(
                f"tool {tool.name!r} would really run while the model explores, and {why}; answer in its place with "
                f"tools={{{tool.name!r}: ...}}, or let it run with allow_destructive=[{tool.name!r}] (--allow-destructive for all)"
            )


def hazard(tool: BaseTool) -> str | None:
    """Why a tool can do harm, from the hints of its MCP server and from its name; None if neither tells.

    A hint that it only reads counts more than its name. A handoff to another agent (``transfer_to_billing``, which returns a
    ``Command``) and the to-do list of an agent change nothing outside of the graph.
    """
    hints = _hints(tool.metadata or {})
    told = hinted_hazard(hints)
    if told is not None or hints.get("readOnlyHint") is True or tool.name == "write_todos" or _is_handoff(tool):
        return told
    return named_hazard(tool.name)


def _hints(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The annotations of an MCP tool, where the usual adapters keep them, by their names on the wire."""
    found: dict[str, Any] = {}
    places = [metadata, metadata.get("annotations"), ((metadata.get("mcp") or {}).get("tool") or {}).get("annotations")]
    for place in places:
        for key, value in place.items() if isinstance(place, Mapping) else ():
            first, *rest = str(key).split("_")
            found[first + "".join(word.capitalize() for word in rest)] = value
    return found


def _is_handoff(tool: BaseTool) -> bool:
    if not tool.name.startswith(("transfer_to_", "transfer_back_to_")):
        return False
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
    returned = getattr(function, "__annotations__", {}).get("return")
    return "__handoff_destination" in (tool.metadata or {}) or "Command" in str(returned)


class RolloutTools:
    """The tools in one rollout; safe from any thread."""

    def __init__(self, tooling: Tooling, session: Session) -> None:
        self._tooling = tooling
        self._session = session
        self._made: Counter[str] = Counter()
        self.refused: InputError | None = None
        """The first call that was refused. It ends the rollout, whatever the graph makes of the error."""
        session.attached[_NAME] = self

    @staticmethod
    def of(session: Session) -> RolloutTools | None:
        """Those of a rollout whose agent is a graph."""
        tools: RolloutTools | None = session.attached.get(_NAME)
        return tools

    @contextlib.contextmanager
    def call(self, tool: BaseTool, given: Any, call_id: str | None) -> Iterator[ToolCallInProgress]:
        """One call of ``tool``, recorded when it ends.

        Args:
            given: the tool's input, injected arguments among it.
            call_id: the id that the model gave the call.

        Raises:
            InputError: the tool must not run.
            LimitReached: the rollout has no tool call left.
        """
        if self.refused is not None:
            raise self.refused
        try:
            self._tooling.check(tool)
        except InputError as refusal:
            self.refused = refusal
            raise
        self._session.check_tool_call()
        started, running = self._session.elapsed(), tool
        if tool.name in self._tooling.stubs:
            running = substitute(tool, self._tooling.stubs[tool.name], self._session, self._made)
        call = ToolCallInProgress(running)
        try:
            yield call
        except BaseException as error:
            call.failed(error)
            raise
        finally:
            arguments = tool._filter_injected_args(given) if isinstance(given, dict) else given
            turn = next((t.id for t in self._session.trajectory.turns if _asked(t, call_id)), None)
            self._session.record_tool(
                ToolEvent(
                    turn=turn,
                    call_id=call_id or "",
                    name=tool.name,
                    arguments=arguments,
                    result=call.result,
                    error=call.error,
                    structured=call.structured,
                    started_s=started,
                    ended_s=self._session.elapsed(),
                    metadata={"answered_by": self._tooling.answered_by(tool.name)},
                )
            )


class ToolCallInProgress:
    """What runs, and how it ended."""

    def __init__(self, tool: BaseTool) -> None:
        self.tool = tool
        self.result = ""
        self.error: str | None = None
        self.structured: Any = None

    def ended(self, output: Any) -> None:
        """The tool returned ``output``."""
        self.result = _text(output)
        if isinstance(output, ToolMessage):
            self.error = "tool_error" if output.status == "error" else None
            self.structured = output.artifact

    def failed(self, error: BaseException) -> None:
        """The tool was left by an exception."""
        self.result = describe(error)
        if isinstance(error, GraphInterrupt):
            self.error = "interrupted"
        elif isinstance(error, GraphBubbleUp):  # it steers the graph
            self.error = None
        elif isinstance(error, ValidationError):
            self.error = "invalid_arguments"
        else:
            self.error = "tool_error" if isinstance(error, Exception) else "cancelled"


def _asked(turn: Any, call_id: str | None) -> bool:
    return call_id is not None and any(call.id == call_id for call in turn.reply.tool_calls)


def _text(output: Any) -> str:
    """What the model is shown of a tool's output."""
    if isinstance(output, ToolMessage):
        return str(output.text)
    if isinstance(output, Command) and isinstance(output.update, Mapping):
        return _text([m for m in output.update.get("messages", ()) if isinstance(m, ToolMessage)])
    if isinstance(output, list) and all(isinstance(item, ToolMessage | Command) for item in output):
        return "\n".join(_text(item) for item in output)
    return output if isinstance(output, str) else str(output)
