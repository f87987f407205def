"""How good an answer of the support agent is: the reward, which reads the recorded calls and the final message."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from art_core import Reward

if TYPE_CHECKING:
    from art_core import Scenario, Trajectory

TOOLS, ARGUMENTS, ANSWER = 0.2, 0.3, 0.5


def score(trajectory: Trajectory, scenario: Scenario) -> Reward:
    """0.2 for the right tools, 0.3 more for the right arguments, 0.5 more for the right answer.

    The right answer is in plain words, contains the fact that was asked for, and counts only after the right calls: a guess is
    worth nothing, nor is a copy of the markup in which a tool answers.
    """
    expected = scenario.expected
    made = calls_of(trajectory)
    names = {name for name, _ in made}
    tools = sum(call["name"] in names for call in expected["calls"]) / len(expected["calls"])
    arguments = all(any(_matches(call, *done) for done in made) for call in expected["calls"])
    text = answer_of(trajectory)
    answer = arguments and contains(text, expected["answer"]) and "<" not in text
    return Reward(
        TOOLS * tools + ARGUMENTS * arguments + ANSWER * answer,
        success=answer,
        parts={"tools": tools, "arguments": float(arguments), "answer": float(answer)},
        reason=f"called {made}, answered {text!r}",
    )


def calls_of(trajectory: Trajectory) -> list[tuple[str, dict[str, Any]]]:
    """The tool calls that were made, by the agent or its specialist, whichever model spoke for them; not those of tools
    they do not have."""
    said = [*trajectory.turns, *(call for call in trajectory.model_calls if call.reply is not None)]
    return [
        (call.name, call.parsed())
        for one in said
        for call in one.reply.tool_calls
        if call.name in {tool.name for tool in one.tools}
    ]


def answer_of(trajectory: Trajectory) -> str:
    """The agent's last words; nothing if it ended with a call or an error."""
    messages = trajectory.output["messages"] if trajectory.output else []
    last = messages[-1] if messages else None
    return last.text if last is not None and last.type == "ai" and not last.tool_calls else ""


def contains(text: str, fact: str) -> bool:
    """Whether a text states a fact: the same words or the same number, not a part of a longer one."""
    return re.search(rf"(?<![\w.]){re.escape(fact)}(?!\w|\.\d)", text, re.IGNORECASE) is not None


def _matches(expected: dict[str, Any], name: str, arguments: dict[str, Any]) -> bool:
    wanted = expected.get("arguments")
    return name == expected["name"] and (wanted is None or _plain(wanted) == _plain(arguments))


def _plain(arguments: dict[str, Any]) -> dict[str, str]:
    return {name: str(value).strip().casefold() for name, value in arguments.items()}
