"""What can be learnt from, as it lies in files: chats in OpenAI form, and stored rollouts of our own; and which of it to use.

A line is a chat if it has ``messages``, a rollout if it has ``schema`` and ``turns``. Nothing is dropped without a count.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from art_core.errors import InputError
from art_core.messages import Message, ToolSpec
from art_core.trajectory import store
from art_core.trajectory.trajectory import Trajectory

__all__ = ["MISSHAPEN", "Chat", "Record", "Records", "Rollout", "read_records", "select"]

MISSHAPEN = (AttributeError, KeyError, TypeError, UnicodeError)
"""What reading a message raises that is not made as the API makes them."""

_OTHER_NAMES = {
    "functions": 'the older form of "tools"',
    "function_call": 'the older form of "tool_calls"',
    "weight": 'written "train": true or false here',
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """A conversation, and which of its messages are to be learnt."""

    source: str
    """File and line."""
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    trained: tuple[bool, ...]
    """One per message; True for assistant messages only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """A stored rollout, to be learnt as it was sampled."""

    source: str
    trajectory: Trajectory

    @property
    def group(self) -> str:
        """What it is compared within."""
        return self.trajectory.group_id or self.trajectory.scenario.id


Record = Chat | Rollout


@dataclass(slots=True, kw_only=True)
class Records:
    """Records in their order, and how many were left out, by reason."""

    kept: list[Record] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def read_records(path: Path) -> Records:
    """The records of a JSONL file, or of all ``trajectories/step-*.jsonl`` of a run's directory.

    In the journals of a run a line that a crash cut short is left out, and so are earlier records of a rollout that has a
    later one.

    Raises:
        InputError: something cannot be read or is neither a chat nor a rollout; names file and line.
    """
    if not path.is_dir():
        records = Records(kept=[_record(line, source) for source, line in _lines(path)])
        if not records.kept:
            raise InputError(f"{str(path)!r} holds no records; give a chat or a stored rollout a line")
        return records
    files = sorted((path / "trajectories").glob("step-*.jsonl"))
    if not files:
        raise InputError(f"{str(path)!r} is neither a JSONL file nor a run with trajectories/step-*.jsonl")
    records = Records()
    for file in files:
        _read_journal(file, records)
    return records


def select(records: Records, *, min_reward: float | None, best: int | None) -> Records:
    """Chats, and the rollouts worth imitating: those that did not fail, and have the rewards asked for.

    Among equal rewards of a group the earlier ones are the best.

    Raises:
        InputError: a choice among rollouts is asked for, and there are none.
    """
    rollouts = [record for record in records.kept if isinstance(record, Rollout)]
    if (min_reward is not None or best is not None) and not rollouts:
        name = "min_reward" if min_reward is not None else "best"
        raise InputError(f"{name} chooses among stored rollouts by their rewards; there are only chats here")
    left_out = Counter(records.left_out)
    good: list[Rollout] = []
    for rollout in rollouts:
        reward = rollout.trajectory.reward
        if rollout.trajectory.failed:
            left_out["failed"] += 1
        elif reward is None and (min_reward is not None or best is not None):
            left_out["unscored"] += 1
        elif min_reward is not None and reward is not None and reward < min_reward:
            left_out["below_min_reward"] += 1
        else:
            good.append(rollout)
    chosen = set(map(id, good if best is None else _best(good, best)))
    left_out["not_best"] += len(good) - len(chosen)
    kept = [record for record in records.kept if isinstance(record, Chat) or id(record) in chosen]
    return Records(kept=kept, left_out=+left_out)


def _best(rollouts: Sequence[Rollout], count: int) -> Iterator[Rollout]:
    groups: dict[str, list[Rollout]] = {}
    for rollout in rollouts:
        groups.setdefault(rollout.group, []).append(rollout)
    for members in groups.values():
        yield from sorted(members, key=lambda member: -(member.trajectory.reward or 0.0))[:count]


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not UTF-8 text"
        raise InputError(f"cannot read {str(path)!r}: {reason}") from error
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            source = f"{path}, line {number}"
            try:
                yield source, json.loads(line)
            except ValueError as error:
                raise InputError(f"{source} is not JSON ({error}): {line[:80]!r}") from error


def _read_journal(path: Path, records: Records) -> None:
    by_id: dict[str, Rollout] = {}
    found = 0
    for number, trajectory in enumerate(_trajectories(path, records.left_out), start=1):
        found = number
        source = f"{path}, record {number}"
        by_id.pop(trajectory.rollout_id, None)
        by_id[trajectory.rollout_id] = Rollout(source=source, trajectory=trajectory)
    records.left_out["superseded"] += found - len(by_id)
    records.kept.extend(by_id.values())


def _trajectories(path: Path, left_out: Counter[str]) -> Iterator[Trajectory]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", store.CutRecord)
        found = list(store.read(path))
    left_out["cut"] += len(caught)
    return iter(found)


def _record(value: Any, source: str) -> Record:
    try:
        if isinstance(value, Mapping) and "messages" in value:
            return _chat(value, source)
        if isinstance(value, Mapping) and {"schema", "turns"} <= value.keys():
            return Rollout(source=source, trajectory=store.from_record(value))
    except InputError as error:
        raise InputError(f"{source}: {error}") from error
    except MISSHAPEN as error:
        raise InputError(f"{source} holds a message or a tool of another shape than the API's: {error!r}") from error
    raise InputError(f"{source} is neither a chat (it has no messages) nor a stored rollout (no schema and turns)")


def _chat(value: Mapping[str, Any], source: str) -> Chat:
    _refuse_other_names(value)
    wires, tools = value["messages"], value.get("tools") or []
    if not isinstance(wires, list) or not wires or not isinstance(tools, list):
        raise InputError("messages must be a list of at least one message, and tools a list")
    messages = tuple(Message.from_wire(wire) for wire in wires)
    trained = tuple(_is_trained(wire, message) for wire, message in zip(wires, messages, strict=True))
    if trained[0]:
        raise InputError('nothing comes before the first message to answer it; mark it "train": false')
    return Chat(
        source=source, messages=messages, tools=tuple(ToolSpec.from_wire(tool) for tool in tools), trained=trained
    )


def _is_trained(wire: Mapping[str, Any], message: Message) -> bool:
    _refuse_other_names(wire)
    own = message.role == "assistant"
    flag = wire.get("train", own)
    if not isinstance(flag, bool):
        raise InputError(f"train must be true or false, got {flag!r}")
    if flag and not own:
        raise InputError(f"a {message.role} message cannot be trained, only an assistant's; leave train out")
    return flag


def _refuse_other_names(value: Mapping[str, Any]) -> None:
    for name, told in _OTHER_NAMES.items():
        if name in value:
            raise InputError(f"{name!r} is {told}")
