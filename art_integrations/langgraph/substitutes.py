"""What answers in the place of a graph's tool: a function, a text, or the answers of earlier rollouts."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.tools import BaseTool, Tool, ToolException
from pydantic import Field

from art_core.errors import InputError, ToolError
from art_core.messages import canonical_json
from art_core.rollout.session import Session
from art_core.scenario import read_jsonl
from art_core.trajectory.trajectory import Trajectory

__all__ = ["Replay", "Stub", "Substitute", "check_stub", "record_answers", "substitute"]


class Replay:
    """Answers of tools, recorded in a file.

    A line is an object with ``tool``, ``arguments``, ``result`` and, where the tool failed, ``error``; ``record_answers`` writes them. A
    call gets the answer of the same tool with the same arguments, whatever the order of their keys; the n-th such call of a
    rollout gets the n-th answer.

    Args:
        path: the file.
        otherwise: answers calls that were not recorded: a function of the tool's arguments, or a text. Without it such a call
            ends the rollout with an error.

    Raises:
        InputError: the file cannot be read, or a line lacks something.
    """

    def __init__(self, path: Path | str, *, otherwise: Callable[..., Any] | str | None = None) -> None:
        self.path = Path(path)
        self.otherwise = otherwise
        self._answers: dict[str, list[tuple[str, bool]]] = {}
        for number, row in enumerate(read_jsonl(self.path), start=1):
            if not isinstance(row, dict) or not {"tool", "arguments", "result"} <= row.keys():
                raise InputError(
                    f"{self.path}, entry {number} is no recorded answer: an object with tool, arguments and result is needed"
                )
            answer = (str(row["result"]), row.get("error") is not None)
            self._answers.setdefault(_key(row["tool"], row["arguments"]), []).append(answer)

    def find(self, tool: str, arguments: Any, occurrence: int) -> tuple[str, bool] | None:
        """The answer to the call with the number ``occurrence`` (from 0) among those that are the same, and whether it is the text of
        a failure; None if it was not recorded."""
        answers = self._answers.get(_key(tool, arguments), [])
        return answers[occurrence] if occurrence < len(answers) else None


Stub = Callable[..., Any] | str | Replay
"""A function of the tool's arguments, sync or async; the text of every answer; or recorded answers."""


def record_answers(path: Path | str, trajectories: Iterable[Trajectory]) -> int:
    """Append the answers that real tools gave in ``trajectories`` to a file for ``Replay``; returns how many there were.

    A call that ended by an interrupt or a cancellation has no answer. Of several trajectories that made the same call the answers
    stand one after the other: the file of one rollout replays that rollout.
    """
    events = [event for trajectory in trajectories for event in trajectory.events]
    real = [
        e for e in events if e.metadata.get("answered_by") == "real" and e.error not in ("interrupted", "cancelled")
    ]
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with Path(path).open("a", encoding="utf-8") as file:
        for event in real:
            row = {"tool": event.name, "arguments": event.arguments, "result": event.result, "error": event.error}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return len(real)


def check_stub(name: str, stub: Any) -> None:
    """
    Raises:
        InputError: ``stub`` can answer nothing.
    """
    if not (callable(stub) or isinstance(stub, str | Replay)):
        raise InputError(
            f"tools gives {name!r} {stub!r}; a function of the tool's arguments, a text, or Replay(FILE) is needed"
        )


class Substitute(BaseTool):
    """Stands in for a tool: it checks and tells everything as that one does, and answers with a stub."""

    name: str
    description: str = ""
    origin: BaseTool = Field(exclude=True)
    stub: Any = Field(exclude=True)
    session: Any = Field(exclude=True)
    made: Any = Field(exclude=True)
    """How often each call was made in the rollout."""

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        value = self._answer(args, kwargs)
        if not inspect.isawaitable(value):
            return value
        session: Session = self.session
        return session.crossing.from_thread(lambda: _awaited(value))

    async def _arun(self, *args: Any, **kwargs: Any) -> Any:
        blocking = callable(self.stub) and not inspect.iscoroutinefunction(self.stub)
        value = (await asyncio.to_thread(self._answer, args, kwargs)) if blocking else self._answer(args, kwargs)
        return await value if inspect.isawaitable(value) else value

    def _answer(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        arguments = self.origin._filter_injected_args(kwargs)
        if isinstance(self.origin, Tool):  # takes one text, whatever it is called
            args, arguments = (*args, *arguments.values()), {}
        if not isinstance(self.stub, Replay):
            return _told(self.stub, args, arguments)
        asked = arguments or (args[0] if args else {})
        key = _key(self.name, asked)
        found = self.stub.find(self.name, asked, self.made[key])
        self.made[key] += 1
        if found is None:
            if self.stub.otherwise is None:
                raise ToolError(
                    f"{self.stub.path} holds no answer to call {self.made[key]} of {self.name}({canonical_json(asked)}); record "
                    "it, or give Replay(otherwise=) what answers such calls"
                )
            return _told(self.stub.otherwise, args, arguments)
        text, failed = found
        if failed:
            raise _RecordedFailure(text)
        return text


class _RecordedFailure(ToolException):
    """The tool had failed with this text."""


@dataclass(slots=True)
class _Failing:
    """How a substitute handles failures: a recorded one is told as it was, all others as the tool's own would be."""

    own: Any

    def __call__(self, error: ToolException) -> str:
        if isinstance(error, _RecordedFailure):
            return str(error)
        if callable(self.own):
            return str(self.own(error))
        if isinstance(self.own, str):
            return self.own
        if self.own:
            return str(error.args[0]) if error.args else "Tool execution error"
        raise error


def substitute(tool: BaseTool, stub: Stub, session: Session, made: Counter[str]) -> Substitute:
    """What is run in the place of ``tool``, in one rollout."""
    return Substitute(
        name=tool.name,
        description=tool.description,
        args_schema=tool.args_schema,
        return_direct=tool.return_direct,
        callbacks=tool.callbacks,
        tags=tool.tags,
        metadata=tool.metadata,
        handle_tool_error=_Failing(tool.handle_tool_error),
        handle_validation_error=tool.handle_validation_error,
        origin=tool,
        stub=stub,
        session=session,
        made=made,
    )


def _told(stub: Callable[..., Any] | str, args: tuple[Any, ...], arguments: Mapping[str, Any]) -> Any:
    return stub if isinstance(stub, str) else stub(*args, **arguments)


async def _awaited(value: Any) -> Any:
    return await value


def _key(tool: str, arguments: Any) -> str:
    return canonical_json([tool, arguments])
