"""What is tried before anything expensive: the agent and the reward, once, with a scripted model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from art_core.errors import InputError
from art_core.inference.scripted import ScriptedPolicy
from art_core.messages import Message, ToolCall, ToolSpec, canonical_json
from art_core.rewards.protocol import GroupReward, RewardLike
from art_core.rollout.limits import Limits
from art_core.rollout.protocol import Agent, AgentWithCheck, AgentWithRealTools
from art_core.rollout.runner import rollout
from art_core.scenario import Scenario

__all__ = ["check_scenarios", "examine", "list_tools", "preflight", "scripted_reply"]


async def examine(agent: Agent, scenarios: Iterable[Scenario], note: Callable[[str], None]) -> dict[str, str]:
    """What every use of an agent begins with: its scenarios are checked, and its tools told; those are returned.

    Raises:
        InputError: see ``check_scenarios`` and ``list_tools``.
    """
    check_scenarios(agent, scenarios)
    return await list_tools(agent, note)


def check_scenarios(agent: Agent, scenarios: Iterable[Scenario]) -> None:
    """Ask an agent that can tell whether it can be run on every one of ``scenarios``.

    Raises:
        InputError: it cannot be run on one; the message is the agent's own.
    """
    if isinstance(agent, AgentWithCheck):
        for scenario in scenarios:
            agent.check_scenario(scenario)


async def list_tools(agent: Agent, note: Callable[[str], None]) -> dict[str, str]:
    """The tools of an agent that can name them, with what answers each; told with ``note``.

    Raises:
        InputError: one that would really run can do harm and was not allowed to.
    """
    if not isinstance(agent, AgentWithRealTools):
        return {}
    tools = dict(await agent.tools_found())
    if tools:
        listed = ", ".join(f"{name} ({by})" for name, by in tools.items())
        note(f"tools found in the agent: {listed}; those that only its tools call cannot be seen from here")
    return tools


async def preflight(
    agent: Agent, scenario: Scenario, reward: RewardLike | None, *, limits: Limits, warn: Callable[[str], None]
) -> None:
    """Run one rollout with a scripted model and score it.

    The script makes the calls that ``scenario.expected`` asks for, where it does, then ends with text. A group reward
    is not asked: it may cost money.

    Raises:
        InputError: agent or reward cannot be called, the agent fails or ends before it asks the model anything, or the
            reward raises or returns something that is not a finite number.
    """
    if not callable(agent):
        raise InputError(f"agent {agent!r} cannot be called; it must be a function of (scenario, session)")
    grouped = isinstance(reward, GroupReward)
    if not grouped and not callable(reward):
        raise InputError(
            f"reward {reward!r} cannot be used; give a function of (trajectory, scenario) or a group reward"
        )
    trajectory = await rollout(
        agent,
        scenario,
        ScriptedPolicy(lambda messages, tools: scripted_reply(scenario, messages, tools)),
        reward=None if isinstance(reward, GroupReward) else reward,
        limits=limits,
        rollout_id=f"preflight-{scenario.id}",
    )
    where = f"on scenario {scenario.id!r} with a scripted model"
    if not trajectory.turns:
        ending = f"failed ({trajectory.error})" if trajectory.failed else f"ended ({trajectory.stop_reason})"
        raise InputError(f"the agent {ending} before it asked the model anything, tried {where}")
    if trajectory.failed:
        warn(f"the agent failed {where}: {trajectory.error}")
    elif not grouped and trajectory.reward is None:
        name = getattr(reward, "__name__", None) or type(reward).__name__
        raise InputError(f"reward {name!r} cannot be used, tried {where}: {trajectory.reward_reason}")


def scripted_reply(scenario: Scenario, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Message:
    """The calls that ``expected`` asks for, if they are on offer and were not made yet; else text."""
    offered = {tool.name for tool in tools}
    calls = [call for call in _calls(scenario.expected) if call[0] in offered]
    if calls and not any(message.tool_calls for message in messages):
        wanted = tuple(
            ToolCall(id=f"call-{number}", name=name, arguments=canonical_json(arguments))
            for number, (name, arguments) in enumerate(calls)
        )
        return Message(role="assistant", tool_calls=wanted)
    return Message(role="assistant", content=scenario.expected if isinstance(scenario.expected, str) else "done")


def _calls(expected: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """Calls in any usual form: ``{"name": ..., "arguments": {...}}``, a list of them, or either under ``calls``."""
    if isinstance(expected, Mapping):
        if isinstance(expected.get("name"), str) and isinstance(expected.get("arguments"), Mapping):
            return [(expected["name"], expected["arguments"])]
        return [pair for key in ("call", "calls", "tool_calls") for pair in _calls(expected.get(key))]
    if isinstance(expected, Sequence) and not isinstance(expected, str):
        return [pair for item in expected for pair in _calls(item)]
    return []
