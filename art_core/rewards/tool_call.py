"""A reward for tool calls whose right answer is known: how close the calls made are to those expected, 0 to 1.

A rollout earns its share of the weights, is divided down for calls beyond those expected, and loses a little for text
piled around a call. Only exactly the expected calls, with the right values and answered without an error, are a
success. No amount of repeating, guessing or filling in earns more than one careful call (see ``ToolCallReward``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any

from art_core.errors import InputError
from art_core.messages import ToolSpec
from art_core.scenario import Scenario
from art_core.trajectory.trajectory import Reward, Trajectory

from .matching import assign, same, similarity

__all__ = ["ToolCallReward", "ToolCallWeights", "right_calls"]

_INVALID_SHARE = 0.25
"""What an attempt that cannot be carried out earns of the weight of a valid call, when there is no valid one."""
_RETRY_COST = 0.25
"""How much of a surplus call an attempt counts that failed and was made again in a later turn, or could not be read."""
_FREE_TEXT = 80
"""Characters around the calls of a turn that cost nothing."""
_LONG_TEXT = 400
"""Characters beyond those at which the reduction is full."""
_TEXT_COST = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallWeights:
    """The shares of the reward; they are scaled to sum to 1."""

    call: float = 0.1
    """A valid call was made: one that can be read, of a tool that was offered, with every required argument."""
    tool: float = 0.05
    """It names the right tool."""
    names: float = 0.35
    """It gives the right argument names: the square of the share of names that are right."""
    values: float = 0.4
    """It gives the right values; counts only where all names are right."""
    answered: float = 0.1
    """The server's answer to it is not an error; counts only where all values are right, so that a valid
    question that was not asked (one copied from an example, say) is no better than a misspelt right one."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0 <= value < float("inf"):
                raise InputError(f"weight {field.name} must be 0 or more, got {value!r}")
        if not sum(astuple(self)):
            raise InputError("at least one weight must be above 0")


@dataclass(frozen=True, slots=True)
class _Made:
    """A readable call that was made."""

    turn: int
    name: str
    arguments: dict[str, Any]
    answered: bool
    failed: bool
    valid: bool


class ToolCallReward:
    """Compares a trajectory's tool calls with ``scenario.expected["calls"]``, a list of ``{"name", "arguments"}``.

    Expected and made calls are paired by best assignment, whatever their order. Parts, each a mean over the expected
    calls: ``call``, ``tool``, ``names`` (shared names over all names, squared), ``values`` (exact is 1, near misses at
    most 0.4, see ``matching.similarity``) and ``answered``, each counting only where the one before is full: there is no
    other way up than through the right call. An argument that says a schema's own default is not superfluous.

    ``n`` calls more than expected divide the reward by ``1 + n``, so trying every tool earns less than choosing one at
    random; an attempt that the server refused and a later turn makes again, and one that could not be read, count a
    quarter.

    >>> ToolCallReward(weights=ToolCallWeights(values=1.0))  # doctest: +ELLIPSIS
    <...ToolCallReward object at ...>
    """

    def __init__(self, weights: ToolCallWeights | None = None) -> None:
        weights = weights or ToolCallWeights()
        whole = sum(astuple(weights))
        self._weights: dict[str, float] = {
            field.name: getattr(weights, field.name) / whole for field in fields(weights)
        }

    def __call__(self, trajectory: Trajectory, scenario: Scenario) -> Reward:
        """Score one rollout.

        Raises:
            InputError: the scenario does not say which calls are expected.
        """
        expected = expected_calls(scenario)
        made = _made(trajectory)
        malformed = sum(len(turn.reply.malformed_calls) for turn in trajectory.turns)
        if not expected:
            return _silence(len(made) + malformed)
        defaults = _defaults(trajectory)
        table = [[self._pair(name, arguments, call, defaults) for call in made] for name, arguments in expected]
        pairs = assign([[self._total(parts) for parts in row] for row in table])
        parts = {
            key: sum(table[row][column][key] for row, column in pairs.items()) / len(expected) for key in self._weights
        }
        if not made and malformed:
            parts["call"] = _INVALID_SHARE
        surplus = _surplus(made, set(pairs.values()), malformed)
        text = _text_share(trajectory)
        value = max(0.0, self._total(parts) / (1 + surplus) * (1 - _TEXT_COST * text))
        exact = all(parts[key] == 1 for key in ("call", "tool", "names", "values", "answered"))
        success = exact and surplus == 0
        parts |= {"surplus": float(surplus), "text": text}
        return Reward(min(value, 1.0), success, parts, _reason(parts, made, malformed))

    def _pair(
        self, name: str, arguments: Mapping[str, Any], call: _Made, defaults: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, float]:
        if not call.valid:
            return {"call": _INVALID_SHARE, "tool": 0.0, "names": 0.0, "values": 0.0, "answered": 0.0}
        if call.name != name:
            return {"call": 1.0, "tool": 0.0, "names": 0.0, "values": 0.0, "answered": 0.0}
        usual = defaults.get(name, {})
        given = {
            key: value
            for key, value in call.arguments.items()
            if key in arguments or not (key in usual and same(usual[key], value))
        }
        every = given.keys() | arguments.keys()
        shared = given.keys() & arguments.keys()
        right = len(shared) / len(every) if every else 1.0
        close = sum(similarity(arguments[key], given[key]) for key in shared)
        values = (close / len(every) if every else 1.0) if right == 1.0 else 0.0
        return {
            "call": 1.0,
            "tool": 1.0,
            "names": right**2,
            "values": values,
            "answered": float(call.answered and values == 1.0),
        }

    def _total(self, parts: Mapping[str, float]) -> float:
        return sum((weight * parts[key] for key, weight in self._weights.items()), 0.0)


def expected_calls(scenario: Scenario) -> list[tuple[str, Mapping[str, Any]]]:
    """Name and arguments of each call a scenario expects.

    Raises:
        InputError: ``expected`` is not of the form ``{"calls": [{"name": ..., "arguments": {...}}]}``.
    """
    calls = scenario.expected.get("calls") if isinstance(scenario.expected, Mapping) else None
    if not isinstance(calls, Sequence) or isinstance(calls, str):
        raise InputError(
            f"scenario {scenario.id!r} does not say which calls are expected; expected must be "
            f'{{"calls": [{{"name": ..., "arguments": {{...}}}}]}}, got {scenario.expected!r}'
        )
    found: list[tuple[str, Mapping[str, Any]]] = []
    for call in calls:
        arguments = call.get("arguments", {}) if isinstance(call, Mapping) else None
        if not isinstance(arguments, Mapping) or not isinstance(call.get("name"), str):
            raise InputError(
                f"scenario {scenario.id!r} expects {call!r}, which is not a call with a name and arguments"
            )
        found.append((call["name"], arguments))
    return found


def _made(trajectory: Trajectory) -> list[_Made]:
    events = {(event.turn, event.call_id): event for event in trajectory.events}
    by_id = {event.call_id: event for event in trajectory.events}
    made = []
    for number, turn in enumerate(trajectory.turns):
        for call in turn.reply.tool_calls:
            event = events.get((turn.id, call.id)) or by_id.get(call.id)
            answered = event is not None and event.error is None
            failed = event is not None and event.error is not None
            arguments = call.parsed()
            made.append(_Made(number, call.name, arguments, answered, failed, _valid(turn.tools, call.name, arguments)))
    return made


def _valid(tools: Sequence[ToolSpec], name: str, arguments: Mapping[str, Any]) -> bool:
    """Whether an offered tool has this name and all it requires is given; True if nothing is known of the tools."""
    spec = next((tool for tool in tools if tool.name == name), None)
    if spec is None:
        return not tools
    return set(spec.parameters.get("required") or ()) <= arguments.keys()


def _surplus(made: Sequence[_Made], used: set[int], malformed: int) -> float:
    """Calls beyond the paired ones; a failure after which a later turn called the same tool again counts a quarter."""
    last = {call.name: call.turn for call in made}
    beyond = [call for index, call in enumerate(made) if index not in used]
    retried = sum(call.failed and call.turn < last[call.name] for call in beyond)
    return len(beyond) - retried + _RETRY_COST * (retried + (malformed if made else max(0, malformed - 1)))


def _defaults(trajectory: Trajectory) -> dict[str, dict[str, Any]]:
    """Tool -> argument -> the default its schema declares, from what the turns were offered."""
    tools: dict[str, ToolSpec] = {tool.name: tool for turn in trajectory.turns for tool in turn.tools}
    return {
        name: {
            key: schema["default"]
            for key, schema in (tool.parameters.get("properties") or {}).items()
            if isinstance(schema, Mapping) and "default" in schema
        }
        for name, tool in tools.items()
    }


def _text_share(trajectory: Trajectory) -> float:
    """0 to 1: how much text the turns that called, or tried to, put around their calls; answers after them are free."""
    calling = [turn.reply for turn in trajectory.turns if turn.reply.tool_calls or turn.reply.malformed_calls]
    longest = max((len(reply.text.strip()) for reply in calling), default=0)
    return min(1.0, max(0, longest - _FREE_TEXT) / _LONG_TEXT)


def _silence(attempts: int) -> Reward:
    right = attempts == 0
    reason = "no call was expected and none was made" if right else f"no call was expected, {attempts} made"
    return Reward(float(right), right, {"surplus": float(attempts)}, reason)


def _reason(parts: Mapping[str, float], made: Sequence[_Made], malformed: int) -> str:
    if any(not call.valid for call in made):
        return "a call names a tool that was not offered or lacks a required argument"
    if not made:
        return "the only calls could not be read" if malformed else "no call was made"
    problems = {
        "call": "a call is missing",
        "tool": "the wrong tool was called",
        "names": "argument names are wrong or missing",
        "values": "argument values are wrong",
        "answered": "the server did not answer or answered with an error",
    }
    found = next((text for key, text in problems.items() if parts[key] < 1), "")
    if not found:
        return f"{parts['surplus']:g} calls too many" if parts["surplus"] else "the expected calls were made"
    return found


right_calls = ToolCallReward()
"""With the weights it has unless others are given, for where a function is named: ``--check art_core.rewards.tool_call:right_calls``."""
