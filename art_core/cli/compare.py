"""``art eval RUN --compare``: what the trained adapter replaces, measured on the same scenarios and told beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from art_core.errors import InputError
from art_core.inference.protocol import Policy
from art_core.loop.comparison import TRAINED, compared, keep, trained_rollouts
from art_core.loop.config import TrainConfig
from art_core.loop.ending import release
from art_core.loop.evaluate import evaluate
from art_core.loop.lending import lent
from art_core.loop.preflight import examine
from art_core.loop.rundir import RunDir
from art_core.loop.splits import Splits
from art_core.loop.usage import parse_prices
from art_core.observe.comparison import COLUMNS, cells
from art_core.observe.progress import Progress
from art_core.observe.report import write_report
from art_core.observe.tables import print_table
from art_core.rewards.account import Price
from art_core.rewards.protocol import RewardLike
from art_core.rollout.protocol import Agent
from art_core.trajectory.trajectory import Trajectory

from .collect import policy_named

__all__ = ["check_subjects", "compare_run", "show_comparison"]


def compare_run(
    directory: RunDir,
    subjects: Sequence[str],
    agent: Agent,
    reward: RewardLike,
    config: TrainConfig,
    prices: Sequence[str],
    progress: Progress,
) -> Sequence[Mapping[str, Any]]:
    """Measure each subject, keep its rollouts, its figures in summary.json and the report, and return all comparisons of the run.

    Raises:
        InputError: a subject that cannot answer, or a run that has nothing to compare with; told before the first rollout.
        RewardError: none of the rollouts of a subject has a score.
    """
    policies, costs = check_subjects(subjects, prices)
    trained = trained_rollouts(directory)
    scenarios = Splits.read(directory.scenarios).test

    async def measured(name: str) -> list[Trajectory]:
        progress.evaluating(name, len(scenarios))
        return await evaluate(
            agent,
            scenarios,
            policies[name],
            reward=reward,
            concurrency=config.rollout.concurrency,
            limits=config.rollout.limits,
            seed=config.seed,
            on_rollout=progress.rollout_done,
        )

    async def go() -> Sequence[Mapping[str, Any]]:
        try:
            await examine(agent, scenarios, progress.note)
            found = keep(directory, [compared(TRAINED, trained, trained, costs)])
            async with lent(reward, directory.read_record()["base_model"], config):
                for name in subjects:
                    rollouts = await measured(name)
                    entry = compared(name, rollouts, trained, costs)
                    directory.write_trajectories(directory.comparison(name), rollouts)
                    found = keep(directory, [entry])
        finally:
            await release(agent, reward, *policies.values())
        return found

    with directory.lock():
        found = asyncio.run(go())
        write_report(directory.path)
    return found


def check_subjects(subjects: Sequence[str], prices: Sequence[str]) -> tuple[dict[str, Policy], dict[str, Price]]:
    """Who answers for each subject, and what models cost.

    Raises:
        InputError: a subject that cannot answer, prices without one, or a price of another form.
    """
    if prices and not subjects:
        raise InputError(f"--price {prices[0]} has no effect without --compare")
    if TRAINED in subjects:
        raise InputError(f"--compare {TRAINED}: the run's own adapter is always part of the comparison; leave it out")
    return {name: policy_named(name) for name in subjects}, parse_prices(prices)


def show_comparison(found: Sequence[Mapping[str, Any]], run: Path) -> None:
    """Print the table: a column for each subject."""
    names, *figures = zip(COLUMNS, *(cells(entry) for entry in found), strict=True)
    print_table("The same test scenarios", names, [figures], numbers=range(1, len(names)))
    print(f"report {run / 'report.html'}")
