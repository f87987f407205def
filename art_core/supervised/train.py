"""Training with the stages it can have: ``loop.run`` with the warm start that ``TrainConfig.warm_start`` asks for."""

from __future__ import annotations

import functools
from typing import Any

from art_core.loop import run
from art_core.loop.ending import run_blocking
from art_core.loop.result import RunResult
from art_core.rewards.protocol import RewardLike
from art_core.rollout.protocol import Agent
from art_core.scenario import Scenarios

from .warm_start import prepare_warm_start

__all__ = ["atrain", "train"]


@functools.wraps(run.atrain)
async def atrain(
    agent: Agent, scenarios: Scenarios | None = None, reward: RewardLike | None = None, **options: Any
) -> RunResult:
    return await run.atrain(agent, scenarios, reward, warm_up=prepare_warm_start, **options)


def train(
    agent: Agent, scenarios: Scenarios | None = None, reward: RewardLike | None = None, **options: Any
) -> RunResult:
    """``atrain`` for code without an event loop; see there for the options.

    Raises:
        InputError: an event loop is running in this thread, as in a notebook.
    """
    return run_blocking(atrain, agent, scenarios, reward, **options)
