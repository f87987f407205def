"""Trajectories on disk: one JSON object a line, versioned, appended as rollouts finish.

Reading gives back what was written, down to the logprobs; only ``environment`` is not stored, and values of foreign
types (an agent's output, say) come back as their text. A line is written in one call, so a killed process leaves at
most one cut line, which reading reports and skips. Storage is linear in turns.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from art_core.disk import append_line
from art_core.errors import InputError
from art_core.messages import Message, ToolSpec
from art_core.scenario import Scenario

from .graph import PolicyVersion, Span, TokenGraph, Turn
from .plain import pack, unpack
from .trajectory import ModelCall, ToolEvent, Trajectory

__all__ = ["SCHEMA", "CutRecord", "append", "from_record", "read", "to_record"]

SCHEMA = 1
"""The version of the record this code writes; it reads this one and older ones."""

_TURN_PLAIN = (
    *("id", "parent", "parent_len", "temperature", "finish_reason", "not_trainable"),
    *("parent_messages", "fork", "started_s", "ended_s"),
)
_TRAJECTORY_PLAIN = ("rollout_id", "group_id", "success", "reward_reason", "stop_reason", "error")
_TRAJECTORY_PACKED = ("output", "reward", "reward_parts", "metrics", "metadata", "seconds")
_EVENT_FIELDS = (
    *("turn", "call_id", "name", "arguments", "result", "error", "structured"),
    *("started_s", "ended_s", "metadata"),
)
_CALL_PLAIN = ("error", "input_tokens", "output_tokens", "started_s", "ended_s")


class CutRecord(UserWarning):
    """A line of a trajectory file was cut off while it was written; the other lines were read."""


def to_record(trajectory: Trajectory) -> dict[str, Any]:
    """The trajectory as a strict-JSON object."""
    toolsets: list[tuple[ToolSpec, ...]] = []
    turns = [_turn_record(turn, toolsets) for turn in trajectory.graph]
    model_calls = [_call_record(call, toolsets) for call in trajectory.model_calls]
    scenario = trajectory.scenario
    return {
        "schema": SCHEMA,
        **{name: getattr(trajectory, name) for name in _TRAJECTORY_PLAIN},
        "scenario": {
            "id": scenario.id,
            "input": pack(scenario.input),
            "expected": pack(scenario.expected),
            "metadata": pack(scenario.metadata),
        },
        **{name: pack(getattr(trajectory, name)) for name in _TRAJECTORY_PACKED},
        "toolsets": [[pack(tool.to_wire()["function"]) for tool in tools] for tools in toolsets],
        "turns": turns,
        "events": [{name: pack(getattr(event, name)) for name in _EVENT_FIELDS} for event in trajectory.events],
        "model_calls": model_calls,
        "superseded": sorted(trajectory.superseded),
    }


def from_record(record: Mapping[str, Any]) -> Trajectory:
    """The trajectory a record was made of.

    Raises:
        InputError: a newer schema, or a record with a missing or unusable field.
    """
    schema = record.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise InputError(f"not a trajectory record: its schema is {schema!r}, not a positive number")
    if schema > SCHEMA:
        raise InputError(
            f"the trajectory has schema {schema}, and this version reads up to {SCHEMA}; read it with a newer version"
        )
    try:
        return _trajectory(record)
    except InputError:
        raise
    except KeyError as error:
        raise InputError(f"the trajectory record lacks the field {error.args[0]!r}") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(f"the trajectory record {record.get('rollout_id')!r} cannot be read: {error}") from error


def append(path: Path | str, trajectory: Trajectory) -> None:
    """Add one line to a trajectory file, in one write; the folder is made where it is missing.

    After a cut line a new one is begun, so nothing is glued to it. Threads of one process may append at once; two
    processes must not.

    Raises:
        OSError: the file cannot be written.
    """
    append_line(
        Path(path), json.dumps(to_record(trajectory), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    )


def read(path: Path | str) -> Iterator[Trajectory]:
    """The trajectories of a file, in the order they were written, one at a time.

    A cut line is skipped with a ``CutRecord`` warning that names it.

    Raises:
        InputError: the file cannot be read, or a whole line is not a record this version reads; names the line.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    trajectory = _read_line(path, number, line)
                    if trajectory is not None:
                        yield trajectory
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror}") from error


def _read_line(path: Path, number: int, line: bytes) -> Trajectory | None:
    try:
        record = json.loads(line)
    except ValueError:
        warnings.warn(
            f"{path}, line {number} was cut off after {len(line)} bytes and is skipped; the rollout in it is lost",
            CutRecord,
            stacklevel=3,
        )
        return None
    try:
        if not isinstance(record, dict):
            raise InputError(f"not a trajectory record: {record!r}")
        return from_record(record)
    except InputError as error:
        raise InputError(f"{path}, line {number}: {error}") from error


def _turn_record(turn: Turn, toolsets: list[tuple[ToolSpec, ...]]) -> dict[str, Any]:
    return {
        **{name: getattr(turn, name) for name in _TURN_PLAIN},
        "context_ids": list(turn.context_ids),
        "completion_ids": list(turn.completion_ids),
        "logprobs": None if turn.logprobs is None else [pack(value) for value in turn.logprobs],
        "versions": [[span.start, span.version.adapter, span.version.step] for span in turn.versions],
        "messages": [pack(message.to_record()) for message in turn.messages],
        "reply": pack(turn.reply.to_record()),
        "tools": _toolset(turn.tools, toolsets),
        "metadata": pack(turn.metadata),
    }


def _call_record(call: ModelCall, toolsets: list[tuple[ToolSpec, ...]]) -> dict[str, Any]:
    return {
        **{name: getattr(call, name) for name in _CALL_PLAIN},
        "messages": [pack(message.to_record()) for message in call.messages],
        "reply": None if call.reply is None else pack(call.reply.to_record()),
        "tools": _toolset(call.tools, toolsets),
        "metadata": pack(call.metadata),
    }


def _toolset(tools: tuple[ToolSpec, ...], toolsets: list[tuple[ToolSpec, ...]]) -> int:
    """The place of ``tools`` among the sets of the record, which they join if they are new."""
    if tools not in toolsets:
        toolsets.append(tools)
    return toolsets.index(tools)


def _call(record: Mapping[str, Any], toolsets: list[tuple[ToolSpec, ...]]) -> ModelCall:
    return ModelCall(
        **{name: record[name] for name in _CALL_PLAIN},
        messages=tuple(Message.from_record(unpack(message)) for message in record["messages"]),
        reply=None if record["reply"] is None else Message.from_record(unpack(record["reply"])),
        tools=toolsets[record["tools"]],
        metadata=unpack(record["metadata"]),
    )


def _turn(record: Mapping[str, Any], toolsets: list[tuple[ToolSpec, ...]]) -> Turn:
    logprobs = record["logprobs"]
    return Turn(
        **{name: record[name] for name in _TURN_PLAIN},
        context_ids=tuple(record["context_ids"]),
        completion_ids=tuple(record["completion_ids"]),
        logprobs=None if logprobs is None else tuple(unpack(value) for value in logprobs),
        versions=tuple(Span(start, PolicyVersion(adapter, step)) for start, adapter, step in record["versions"]),
        messages=tuple(Message.from_record(unpack(message)) for message in record["messages"]),
        reply=Message.from_record(unpack(record["reply"])),
        tools=toolsets[record["tools"]],
        metadata=unpack(record["metadata"]),
    )


def _trajectory(record: Mapping[str, Any]) -> Trajectory:
    scenario = record["scenario"]
    toolsets = [tuple(ToolSpec(**unpack(tool)) for tool in tools) for tools in record["toolsets"]]
    return Trajectory(
        scenario=Scenario(
            scenario["id"], unpack(scenario["input"]), unpack(scenario["expected"]), unpack(scenario["metadata"])
        ),
        graph=TokenGraph(_turn(turn, toolsets) for turn in record["turns"]),
        events=[ToolEvent(**{name: unpack(event[name]) for name in _EVENT_FIELDS}) for event in record["events"]],
        model_calls=[_call(call, toolsets) for call in record.get("model_calls", ())],  # younger than the schema
        superseded=set(record.get("superseded", ())),
        **{name: record[name] for name in _TRAJECTORY_PLAIN},
        **{name: unpack(record[name]) for name in _TRAJECTORY_PACKED},
    )
