"""A rollout as a judge reads it: messages as text, each conversation of the rollout for itself, nothing that only training needs.

Token ids, logprobs, versions and metadata never get here. What a message says is text in which our own markup is defused, so
that no rollout can pretend to be the end of itself, or another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from art_core.messages import Message, ToolSpec, canonical_json
from art_core.trajectory.graph import Turn
from art_core.trajectory.trajectory import ModelCall, Trajectory

__all__ = ["Transcript", "defused", "said_by", "shared_start", "transcript_of"]

_MARKUP = re.compile(r"<(?=/?(?:trajectory|context|tools|rubric|conversation)\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """What one rollout did."""

    conversations: tuple[tuple[str, ...], ...]
    """Each its messages as text; the main one, in which the last turn is, comes first."""
    given: int
    """How many messages of the main one were there before the rollout said anything: instructions, worked examples, the request."""
    tools: tuple[ToolSpec, ...]
    """Everything it was offered, each name once."""
    ending: str
    """How it ended, where that is not by finishing."""

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for rollouts that said and were told the same."""
        return self.conversations, self.ending


def transcript_of(trajectory: Trajectory) -> Transcript:
    """The transcript of a rollout of the policy, or of one in which the agent's own models answered."""
    leaves = trajectory.graph.leaves()
    used = [leaf for leaf in leaves if leaf.id not in trajectory.superseded] or leaves
    histories = [trajectory.graph.history(leaf.id) for leaf in used]
    if not histories:
        histories = [[*call.messages, call.reply] for call in trajectory.model_calls if call.reply is not None]
        histories = [one for one in histories if not any(_continues(other, one) for other in histories)]
    histories.sort(key=lambda history: history != trajectory.messages)
    asked: list[Turn | ModelCall] = [*trajectory.turns, *trajectory.model_calls]
    conversations = tuple(tuple(map(said_by, history)) for history in histories)
    tools = {tool.name: tool for one in asked for tool in one.tools}
    ending = (
        "" if trajectory.stop_reason in (None, "finished") else f"[the rollout ended here: {trajectory.stop_reason}]"
    )
    return Transcript(
        conversations=conversations,
        given=_given(conversations[0], trajectory) if conversations else 0,
        tools=tuple(tools.values()),
        ending=ending,
    )


def said_by(message: Message) -> str:
    """One message as text.

    >>> from art_core.messages import ToolCall
    >>> print(said_by(Message(role="assistant", content="Let me see.", tool_calls=(ToolCall(id="c", name="look", arguments="{}"),))))
    [assistant]
    Let me see.
    → look({})
    """
    name = f" {message.name}" if message.name else ""
    lines = [f"[{message.role}{name}]"]
    if message.reasoning:
        lines.append(f"(thinking) {message.reasoning.strip()}")
    if text := message.text.strip():
        lines.append(text)
    lines += [f"→ {call.name}({canonical_json(call.parsed())})" for call in message.tool_calls]
    lines += [f"→ a call that could not be read: {call.raw}" for call in message.malformed_calls]
    return defused("\n".join(lines))


def defused(text: str) -> str:
    """``text`` without our own tags.

    >>> defused("</trajectory> <b>")
    '‹/trajectory> <b>'
    """
    return _MARKUP.sub("‹", text)


def _given(conversation: Sequence[str], trajectory: Trajectory) -> int:
    """What the first request that begins like the conversation has in common with it."""
    asked = (trajectory.graph.history(turn.id)[:-1] for turn in trajectory.turns)
    requests = chain(asked, (call.messages for call in trajectory.model_calls))
    common = (shared_start([conversation, [said_by(message) for message in request]]) for request in requests)
    return next(filter(None, common), 0)


def _continues(longer: Sequence[Message], shorter: Sequence[Message]) -> bool:
    return len(longer) > len(shorter) and list(longer[: len(shorter)]) == list(shorter)


def shared_start(conversations: Iterable[Sequence[str]]) -> int:
    """How many leading messages all conversations have in common."""
    every = list(conversations)
    shortest = min(map(len, every), default=0)
    for position in range(shortest):
        if len({one[position] for one in every}) > 1:
            return position
    return shortest
