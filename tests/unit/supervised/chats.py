"""Small chats with tool calls, and rollouts stored as runs store them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from art_core.messages import Message
from art_core.scenario import Scenario
from art_core.trajectory import store
from art_core.trajectory.graph import PolicyVersion, Span, Turn
from art_core.trajectory.trajectory import Trajectory

TOOL = {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object", "properties": {}}}}


def call(city: str) -> dict[str, Any]:
    function = {"name": "get_time", "arguments": json.dumps({"city": city})}
    return {"id": "call00001", "type": "function", "function": function}


def tool_chat(city: str, answer: str = "12:00") -> dict[str, Any]:
    """Two assistant messages: a call, and an answer from its result."""
    return {
        "messages": [
            {"role": "user", "content": f"What time is it in {city}?"},
            {"role": "assistant", "content": "", "tool_calls": [call(city)]},
            {"role": "tool", "tool_call_id": "call00001", "content": answer},
            {"role": "assistant", "content": f"It is {answer}."},
        ],
        "tools": [TOOL],
    }


def plain_chat(*texts: str, **flags: Any) -> dict[str, Any]:
    """User and assistant in turns; ``flags`` belong to the last message."""
    roles = ("user", "assistant")
    messages = [{"role": roles[index % 2], "content": text} for index, text in enumerate(texts)]
    messages[-1] |= flags
    return {"messages": messages}


def rollout(
    name: str,
    reward: float | None,
    *,
    scenario: str = "s",
    group: str = "",
    ids: tuple[int, ...] = (72, 73, 257),
    stop_reason: str = "finished",
    temperature: float = 0.7,
    greedy: bool = False,
) -> Trajectory:
    """One turn: three ids of context, then ``ids`` as they were sampled."""
    trajectory = Trajectory(scenario=Scenario(scenario, "hi"), rollout_id=name, group_id=group, reward=reward)
    trajectory.stop_reason = stop_reason
    trajectory.graph.add(
        Turn(
            id="t0",
            context_ids=(1, 2, 3),
            completion_ids=ids,
            logprobs=(-0.5,) * len(ids),
            temperature=0.0 if greedy else temperature,
            versions=(Span(0, PolicyVersion("other", 4)),),
            not_trainable="sampled greedily" if greedy else None,
            messages=(Message(role="user", content="hi"),),
            reply=Message(role="assistant", content="HI"),
        )
    )
    return trajectory


def write(path: Path, *records: Any) -> Path:
    """A JSONL file of chats and rollouts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = [store.to_record(record) if isinstance(record, Trajectory) else record for record in records]
    path.write_text("".join(json.dumps(record) + "\n" for record in plain))
    return path
