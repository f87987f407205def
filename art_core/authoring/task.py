"""An agent that is nothing but a system text and a model: what a task in words is trained as."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from art_core.errors import InputError, JudgeError
from art_core.judging.asking import Asker
from art_core.judging.json_reply import json_in, short
from art_core.messages import Message
from art_core.scenario import Scenario

if TYPE_CHECKING:
    from art_core.rollout.session import Session

__all__ = ["TaskAgent", "write_system"]

_LONGEST = 4_000
_INSTRUCTIONS = """\
You write the system text of an assistant that has one task. Say what it does, what its answer looks like, and what it does where something is
missing or unclear; say it briefly, to a small model. Answer with a JSON object alone: {"system": "…"}"""
_SCHEMA = {
    "type": "object",
    "properties": {"system": {"type": "string"}},
    "required": ["system"],
    "additionalProperties": False,
}


class TaskAgent:
    """Answers each message of the user in turn.

    >>> agent = TaskAgent("Answer in one word.")

    Args:
        system: system text of every rollout; empty for none.
    """

    def __init__(self, system: str = "") -> None:
        self.system = system

    async def __call__(self, scenario: Scenario, session: Session) -> str:
        """One rollout; returns the last answer.

        Raises:
            InputError: the scenario's input is neither a text nor a list of user messages.
        """
        messages = [Message(role="system", content=self.system)] if self.system else []
        text = ""
        for asked in _asked(scenario):
            messages.append(asked)
            turn = await session.turn(messages)
            messages.append(turn.reply)
            text = turn.reply.text
        return text


async def write_system(asker: Asker, task: str) -> str:
    """The system text for a task in words.

    Raises:
        JudgeError: the model does not answer, or not so that it can be used.
    """
    asked = [{"role": "system", "content": _INSTRUCTIONS}, {"role": "user", "content": f"The task:\n{task.strip()}"}]
    return await asker.usable(asked, _SCHEMA, _read)


def _read(text: str) -> str:
    value: Any = json_in(text, lambda found: isinstance(found, dict) and "system" in found)
    system = value.get("system") if isinstance(value, dict) else None
    if not isinstance(system, str) or not system.strip():
        raise JudgeError("there is no text in system")
    if len(system) > _LONGEST:
        raise JudgeError(f"system has {len(system)} characters, more than {_LONGEST}; be brief")
    return system.strip()


def _asked(scenario: Scenario) -> list[Message]:
    given = scenario.input
    if isinstance(given, str):
        return [Message(role="user", content=given)]
    said = given if isinstance(given, Sequence) else ()
    messages = [item if isinstance(item, Message) else Message.from_wire(item) for item in said]
    if not messages or any(message.role != "user" for message in messages):
        raise InputError(
            f"scenario {scenario.id!r}: input must be a text, or a list of user messages, got {short(given)}"
        )
    return messages
