"""The groups of one step: those its journal holds from before the run was cut short, and new ones, journaled as they end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from art_core.inference.protocol import Policy
from art_core.rewards.protocol import GroupReward, RewardLike
from art_core.rewards.score import score_group
from art_core.rollout.group import gather
from art_core.rollout.protocol import Agent
from art_core.scenario import Scenario
from art_core.trajectory import store
from art_core.trajectory.trajectory import Trajectory, TrajectoryGroup

from .config import TrainConfig
from .journal import recover
from .rundir import RunDir
from .versions import Versions

__all__ = ["Experience", "gather_step"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Experience:
    """What a step can learn from."""

    groups: list[TrajectoryGroup]
    """One per scenario, in their order."""
    drawn_tokens: int
    """Sampled now, not found in the journal."""


async def gather_step(
    number: int,
    scenarios: Sequence[Scenario],
    *,
    agent: Agent,
    reward: RewardLike,
    policy: Policy,
    versions: Versions,
    config: TrainConfig,
    directory: RunDir,
    on_rollout: Callable[[Trajectory], None],
    warn: Callable[[str], None],
) -> Experience:
    """Gather step ``number`` with ``policy``, which serves ``versions``; ``on_rollout`` is told of every rollout, found or new."""
    settings, path = config.rollout, directory.journal(number)
    found = recover(
        path,
        scenarios,
        group_size=settings.group_size,
        versions=versions,
        deterministic=config.deterministic,
        scored_later=isinstance(reward, GroupReward),
        on_problem=warn,
    )
    directory.write_trajectories(path, [trajectory for group in found.values() for trajectory in group])
    for group in found.values():
        for trajectory in group:
            on_rollout(trajectory)
        if isinstance(reward, GroupReward) and any(not t.failed and t.reward is None for t in group):
            await score_group(reward, group, seconds=settings.limits.reward_seconds)

    def journal(trajectory: Trajectory) -> None:
        store.append(path, trajectory)
        on_rollout(trajectory)

    missing = [scenario for scenario in scenarios if scenario.id not in found]
    if not missing:
        return Experience(groups=[found[scenario.id] for scenario in scenarios], drawn_tokens=0)
    fresh = await gather(
        agent,
        missing,
        policy,
        reward=reward,
        group_size=settings.group_size,
        concurrency=settings.concurrency,
        limits=settings.limits,
        seed=config.seed,
        step=number,
        on_rollout=journal,
    )
    found |= {group.scenario.id: group for group in fresh}
    return Experience(
        groups=[found[scenario.id] for scenario in scenarios],
        drawn_tokens=sum(trajectory.sampled_tokens for group in fresh for trajectory in group),
    )
