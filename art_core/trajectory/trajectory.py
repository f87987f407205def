"""Trajectory: everything one rollout did and how it was scored; TrajectoryGroup: siblings of one scenario."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from art_core.errors import InputError
from art_core.messages import Message, ToolSpec
from art_core.scenario import Scenario

from .graph import TokenGraph, Turn
from .samples import TrainingSample, samples_of

__all__ = ["ModelCall", "Reward", "ToolEvent", "Trajectory", "TrajectoryGroup"]


@dataclass(frozen=True, slots=True)
class Reward:
    """What a rollout earned.

    >>> Reward(0.5, parts={"format": 1.0, "values": 0.0}).success is None
    True
    """

    value: float
    success: bool | None = None
    """Whether the task counts as solved, where the reward can tell."""
    parts: dict[str, float] = field(default_factory=dict)
    reason: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.value, bool) or not isinstance(self.value, int | float) or not math.isfinite(self.value):
            raise InputError(f"a reward must be a finite number, got {self.value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEvent:
    """One tool call that was really made (or refused) on behalf of the model."""

    turn: str | None
    """Id of the turn that asked for it."""
    call_id: str
    name: str
    """The name the model used."""
    arguments: Any
    """The parsed arguments, or the raw text where they could not be parsed."""
    result: str
    """The text the model was shown."""
    error: str | None = None
    """Kind of failure: ``tool_error``, ``protocol_error``, ``timeout``, ``crash``, ``unknown_tool``, ``malformed``, ...; None if it succeeded."""
    structured: Any = None
    """The server's structured value, where there was one."""
    started_s: float = 0.0
    """Seconds since the rollout began."""
    ended_s: float = 0.0
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One call of a model that is not the policy: part of the environment, never trained."""

    messages: tuple[Message, ...]
    reply: Message | None
    """None where the call failed."""
    tools: tuple[ToolSpec, ...] = ()
    error: str | None = None
    input_tokens: int | None = None
    """As the provider counts them; None where it does not tell."""
    output_tokens: int | None = None
    started_s: float = 0.0
    """Seconds since the rollout began."""
    ended_s: float = 0.0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Who called, as far as that is known: ``model``, ``provider``, ``node``, ..."""


@dataclass(slots=True, kw_only=True, eq=False)
class Trajectory:
    """Everything one rollout did.

    ``reward`` is None while unscored and stays None when scoring failed: missing is never 0.
    """

    scenario: Scenario
    rollout_id: str
    group_id: str = ""
    graph: TokenGraph = field(default_factory=TokenGraph)
    events: list[ToolEvent] = field(default_factory=list)
    model_calls: list[ModelCall] = field(default_factory=list)
    """Calls of other models, in the order they ended."""
    superseded: set[str] = field(default_factory=set)
    """Ids of turns that were sampled again because a node, a program or a request was started over: what they said was
    used nowhere, and they are not trained unless asked for."""
    output: Any = None
    """What the agent returned."""
    reward: float | None = None
    success: bool | None = None
    reward_parts: dict[str, float] = field(default_factory=dict)
    reward_reason: str = ""
    """Why the reward is what it is, or why it is missing."""
    metrics: dict[str, float] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    stop_reason: str | None = None
    """``finished``, ``max_turns``, ``max_tokens``, ``max_tool_calls``, ``max_context``, ``timeout``, ``error``, ``cancelled``; None while running."""
    error: str | None = None
    """One line, attributed: ``agent: ValueError: ...``."""
    seconds: float = 0.0
    environment: Any = None
    """What the agent opened for this rollout (sessions, a work directory), alive while rewards run; never stored."""

    @property
    def turns(self) -> list[Turn]:
        """The model calls in the order they ended."""
        return self.graph.turns

    @property
    def messages(self) -> list[Message]:
        """The conversation that ended with the last turn; without any turn, with the last answer of the agent's own models."""
        if turns := self.graph.turns:
            return self.graph.history(turns[-1].id)
        last = next((call for call in reversed(self.model_calls) if call.reply is not None), None)
        return [] if last is None or last.reply is None else [*last.messages, last.reply]

    @property
    def failed(self) -> bool:
        """Whether the rollout ended by an error (a limit is not one)."""
        return self.stop_reason in ("error", "cancelled")

    @property
    def sampled_tokens(self) -> int:
        """All completion tokens of all turns."""
        return sum(len(turn.completion_ids) for turn in self.graph)

    @property
    def truncated(self) -> bool:
        """Whether any turn ran out of tokens."""
        return any(turn.finish_reason == "length" for turn in self.graph)

    def score(self, reward: Reward) -> None:
        """Set reward, success, parts and reason together."""
        self.reward = float(reward.value)
        self.success = reward.success
        self.reward_parts = {str(name): float(value) for name, value in reward.parts.items()}
        self.reward_reason = reward.reason

    def unscore(self, reason: str) -> None:
        """Mark the reward as missing, with the reason."""
        self.reward, self.success, self.reward_parts, self.reward_reason = None, None, {}, reason

    @property
    def superseded_tokens(self) -> int:
        """The completion tokens of the superseded turns."""
        return sum(len(turn.completion_ids) for turn in self.graph if turn.id in self.superseded)

    def samples(self, *, superseded: bool = False) -> list[TrainingSample]:
        """The rows to train on, with the superseded turns or without them.

        Raises:
            NotTrainable: no turn has sampled ids with logprobs that may be trained; names the turn.
        """
        left_out = frozenset() if superseded else frozenset(self.superseded)
        return samples_of(self.graph, rollout_id=self.rollout_id, left_out=left_out)


@dataclass(slots=True, kw_only=True, eq=False)
class TrajectoryGroup:
    """Sibling rollouts of one scenario, compared with each other."""

    scenario: Scenario
    trajectories: list[Trajectory]
    group_id: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Trajectory]:
        return iter(self.trajectories)

    def __len__(self) -> int:
        return len(self.trajectories)

    @property
    def rewards(self) -> list[float | None]:
        """The siblings' rewards in order; None where missing."""
        return [trajectory.reward for trajectory in self.trajectories]
