"""Scenario: one task an agent is asked to do, and where scenarios come from.

A source is indexed, never consumed: the scenarios of training step ``s`` are a function of (source, seed, s), so a
resumed run asks for the same ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import InputError
from .randomness import fold, rng

__all__ = ["Scenario", "ScenarioSource", "check_ids", "load_scenarios", "read_jsonl"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One task.

    >>> Scenario("q1", "What time is it in Paris?").input
    'What time is it in Paris?'
    """

    id: str
    input: Any
    """What the agent is given: text, a list of messages, or whatever the agent understands. JSON-serialisable."""
    expected: Any = None
    """What a reward may compare with. Never shown to the agent."""
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id:
            raise InputError(f"scenario id must be a non-empty string, got {self.id!r}")
        if self.input is None:
            raise InputError(f"scenario {self.id!r} has no input")

    def to_record(self) -> dict[str, Any]:
        record: dict[str, Any] = {"id": self.id, "input": self.input}
        if self.expected is not None:
            record["expected"] = self.expected
        if self.metadata:
            record["metadata"] = self.metadata
        return record

    @classmethod
    def from_record(cls, record: Any, *, default_id: str = "") -> Scenario:
        """Read a scenario from a JSON object with ``input`` and optionally ``id``, ``expected``, ``metadata``.

        Raises:
            InputError: not an object, no ``input``, or an unknown key.
        """
        if not isinstance(record, Mapping):
            raise InputError(f"a scenario must be a JSON object, got {type(record).__name__}")
        unknown = sorted(set(record) - {"id", "input", "expected", "metadata"})
        if unknown:
            raise InputError(f"unknown key {unknown[0]!r} in a scenario; valid keys are id, input, expected, metadata")
        if "input" not in record:
            raise InputError("a scenario needs the key 'input'")
        metadata = record.get("metadata") or {}
        if not isinstance(metadata, Mapping):
            raise InputError(f"scenario metadata must be a JSON object, got {metadata!r}")
        return cls(str(record.get("id") or default_id), record["input"], record.get("expected"), dict(metadata))


def check_ids(scenarios: Iterable[Scenario]) -> None:
    """Refuse scenarios that share an id.

    Raises:
        InputError: an id occurs twice; names the first.
    """
    seen: set[str] = set()
    for scenario in scenarios:
        if scenario.id in seen:
            raise InputError(f"scenario id {scenario.id!r} occurs twice; ids must be unique")
        seen.add(scenario.id)


class ScenarioSource:
    """A finite list of scenarios, drawn in seeded epochs.

    Position ``p`` of the endless stream is element ``p mod n`` of the shuffle of epoch ``p div n``: every scenario
    comes exactly once per epoch and the stream can be entered anywhere.
    """

    def __init__(self, scenarios: Iterable[Scenario], *, seed: int = 0) -> None:
        self._scenarios = list(scenarios)
        if not self._scenarios:
            raise InputError("there are no scenarios; at least one is needed")
        check_ids(self._scenarios)
        self._seed = seed
        self._orders: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self._scenarios)

    def at(self, position: int) -> Scenario:
        """The scenario at ``position`` (0-based) of the endless stream."""
        epoch, offset = divmod(position, len(self._scenarios))
        if epoch not in self._orders:
            order = list(range(len(self._scenarios)))
            rng("scenarios", self._seed, epoch).shuffle(order)
            self._orders = {epoch: order}
        return self._scenarios[self._orders[epoch][offset]]

    def batch(self, step: int, size: int) -> list[Scenario]:
        """The ``size`` scenarios of training step ``step`` (0-based)."""
        return [self.at(step * size + offset) for offset in range(size)]


def read_jsonl(path: Path) -> list[Any]:
    """The values of a JSON-lines file; blank lines are skipped.

    Raises:
        InputError: the file cannot be read, or a line is not JSON; the message names file, line and text.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not UTF-8 text"
        raise InputError(f"cannot read {str(path)!r}: {reason}") from error
    values = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                values.append(json.loads(line))
            except ValueError as error:
                raise InputError(f"{path}, line {number} is not JSON ({error}): {line[:80]!r}") from error
    return values


Scenarios = str | Path | Sequence[Scenario | Mapping[str, Any] | str] | Callable[[], Iterable[Scenario]]


def load_scenarios(source: Scenarios) -> list[Scenario]:
    """Scenarios from a JSONL path, a list (of scenarios, dicts or plain inputs) or a callable that returns them.

    A scenario without an id gets one made from its content, so that ids are stable across runs.

    Raises:
        InputError: the file or an element cannot be used; the message names the line or position.
    """
    if isinstance(source, str | Path):
        path = Path(source)
        rows: Iterable[Any] = read_jsonl(path)
        where = f"{path}, row"
    else:
        rows = source() if callable(source) else source
        where = "scenario"
    scenarios = []
    for number, row in enumerate(rows, start=1):
        try:
            scenarios.append(_scenario(row))
        except InputError as error:
            raise InputError(f"{where} {number}: {error}") from error
    if not scenarios:
        raise InputError(
            f"{source!r} holds no scenarios" if isinstance(source, str | Path) else "there are no scenarios"
        )
    return scenarios


def _scenario(row: Any) -> Scenario:
    if isinstance(row, Scenario):
        return row
    if isinstance(row, str):
        row = {"input": row}
    return Scenario.from_record(row, default_id=f"s-{fold(json.dumps(row, sort_keys=True, default=str)):016x}")
