"""T29: a task of two turns with a tool in between is learnt by a tiny random model within a fixed number of steps."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from art_core.loop.batch import make_batch
from art_core.loop.config import TrainConfig
from art_core.loop.embedded import EmbeddedBackend
from art_core.messages import Message
from art_core.rollout.group import gather
from art_core.scenario import Scenario
from art_core.trajectory.graph import PolicyVersion
from art_core.trajectory.trajectory import ToolEvent
from tests.tiny import save_tiny

CONFIG = {
    "precision": "float32",
    "lora": {"rank": 4},
    "training": {"learning_rate": 0.01},
    "rollout": {"max_tokens": 3, "temperature": 1.5},
}
STEPS = 5
TASKS = [Scenario("s0", "go north"), Scenario("s1", "go south")]


async def agent(scenario: Scenario, session: Any) -> str:
    """Asks, lets the tool look at the answer, and asks again with what it said."""
    asked = Message(role="user", content=scenario.input)
    first = await session.turn([asked])
    found = f"{low(first):.2f}"
    session.check_tool_call()
    session.record_tool(ToolEvent(turn=first.id, call_id="c", name="count", arguments={}, result=found))
    told = Message(role="user", content=f"{found}; again.")
    return (await session.turn([asked, first.reply, told])).reply.text


def low(turn: Any) -> float:
    return sum(token < 128 for token in turn.completion_ids) / len(turn.completion_ids)


def score(trajectory: Any, scenario: Scenario) -> float:
    """Low ids, in the turn before the tool and in the one after it."""
    first, second = trajectory.turns
    return (low(first) + low(second)) / 2


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, 4))])
async def test_t29_a_tool_task_of_two_turns_is_learnt(tmp_path, seed):
    backend = EmbeddedBackend(str(save_tiny(tmp_path / "model")), TrainConfig.build({**CONFIG, "seed": seed}))
    means = []
    for step in range(STEPS):
        policy = backend.policy(PolicyVersion("default", step))
        groups = await gather(agent, TASKS, policy, reward=score, group_size=12, seed=seed, step=step)
        batch = make_batch(groups)
        assert all(len(trajectory.samples()) == 1 for group in groups for trajectory in group)
        means.append(sum(batch.rewards) / 24)
        await asyncio.to_thread(backend.train, batch.samples, batch.advantages)
        await backend.publish(PolicyVersion("default", step + 1))
    await backend.close()
    assert means[0] < 0.3
    assert means[-1] > 0.6
