"""The warm start of a training run: supervised fine-tuning on collected rollouts that pass the reward, before any of its own.

    collected rollouts ─► those that pass, of training scenarios ─► chats ─► fine-tuning in RUN/warm-start ─► its adapter

Rollouts of scenarios that the run holds out are left out: what is measured on those must not have been seen.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from art_core.disk import write_whole
from art_core.errors import InputError
from art_core.loop.collect import TRAJECTORIES, collected
from art_core.loop.config import TrainConfig, WarmStartConfig
from art_core.loop.rundir import RunDir
from art_core.loop.splits import Splits
from art_core.loop.warm import Stage
from art_core.messages import canonical_json
from art_core.observe.progress import Progress
from art_core.rollout.protocol import Agent
from art_core.rollout.selection import Selection
from art_core.scenario import Scenario
from art_core.trajectory.plain import pack
from art_core.trajectory.trajectory import Trajectory

from .config import SftConfig
from .conversations import chat_record, chats_of
from .records import Chat
from .run import asft

__all__ = ["choose", "prepare_warm_start"]

_CHATS = "warm-start.jsonl"
_PLACE = "warm-start"
_FEW = 10
"""With fewer chats nothing is held out of the fine-tuning."""


def prepare_warm_start(config: TrainConfig, splits: Splits, agent: Agent) -> Stage:
    """See ``loop.warm.WarmUp``.

    Raises:
        InputError: nothing collected there passes the reward, or the agent is trained as several adapters.
    """
    assert config.warm_start is not None
    selection = getattr(agent, "selection", None) or Selection()
    if len(selection.adapters) > 1:
        raise InputError(
            f"a warm start trains one adapter, and the agent's calls are trained as {', '.join(selection.adapters)}"
        )
    chosen, counts = choose(config.warm_start, splits)
    chats = [chat for trajectory in chosen for chat in chats_of(trajectory, selection)]
    if not chats:
        raise InputError(
            f"none of the {len(chosen)} rollouts that pass in {config.warm_start.run!r} has a model call that is trained"
        )
    return functools.partial(_fine_tune, config, chats, {**counts, "chats": len(chats)})


def choose(settings: WarmStartConfig, splits: Splits) -> tuple[list[Trajectory], dict[str, int]]:
    """The collected rollouts to learn from, and the account of all: ``rollouts`` = ``used`` + those left out, by reason.

    One passes if the reward says that it succeeded or, where it does not tell, if it is at least ``settings.min_reward``.

    Raises:
        InputError: there are none, or none passes; says why.
    """
    found = collected(Path(settings.run).expanduser())
    if not found:
        raise InputError(
            f"warm_start.run {settings.run!r} is no directory of collected rollouts: it has no {TRAJECTORIES}"
        )
    held_out = {key for scenario in (*splits.validation, *splits.test) for key in _keys(scenario)}
    left_out: Counter[str] = Counter()
    chosen = []
    for trajectory in found:
        reason = _why_not(trajectory, settings, held_out)
        if reason is None:
            chosen.append(trajectory)
        else:
            left_out[reason] += 1
    counts = {"rollouts": len(found), "used": len(chosen), **dict.fromkeys(_REASONS, 0), **left_out}
    if not chosen:
        told = ", ".join(f"{count} {_REASONS[name]}" for name, count in left_out.items())
        raise InputError(f"none of the {len(found)} rollouts in {settings.run!r} can be learnt from: {told}")
    return chosen, counts


_REASONS = {
    "held_out": "of scenarios that this run holds out",
    "failed": "ended by an error",
    "unscored": "without a reward",
    "untold": "whose reward tells no success (set warm_start.min_reward)",
    "below": "did not pass the reward",
}


def _why_not(trajectory: Trajectory, settings: WarmStartConfig, held_out: set[str]) -> str | None:
    if held_out & _keys(trajectory.scenario):
        return "held_out"
    if trajectory.failed:
        return "failed"
    if trajectory.reward is None:
        return "unscored"
    if trajectory.success is not None:
        return None if trajectory.success else "below"
    if settings.min_reward is None:
        return "untold"
    return None if trajectory.reward >= settings.min_reward else "below"


def _keys(scenario: Scenario) -> set[str]:
    """What tells a scenario: its id, and what is asked."""
    return {f"id {scenario.id}", f"input {canonical_json(pack(scenario.input))}"}


async def _fine_tune(
    config: TrainConfig,
    chats: Sequence[Chat],
    counts: dict[str, int],
    directory: RunDir,
    record: dict[str, Any],
    shown: Progress,
) -> Path:
    """The adapter of a fine-tuning that lies in the run's directory; one that was cut off goes on.

    Raises:
        KeyboardInterrupt: the user stopped it; the run can be resumed.
    """
    assert config.warm_start is not None
    place = directory.path / _PLACE
    if (place / "run.toml").is_file():
        result = await asft(resume=place, progress=shown)
    else:
        used = f"{counts['used']} of {counts['rollouts']} collected rollouts, {counts['chats']} chats"
        shown.note(f"warm start: fine-tuning on {used}, from {config.warm_start.run}")
        for name, meaning in _REASONS.items():
            if counts[name]:
                shown.note(f"left out: {counts[name]} {meaning}")
        record["warm_start"] = counts
        directory.write_record(record)
        data = directory.path / _CHATS
        write_whole(data, (json.dumps(chat_record(chat)) + "\n" for chat in chats))
        settings = _settings(config, len(chats), directory)
        result = await asft(data, base_model=record["base_model"], config=settings, progress=shown)
    if result.stop_reason == "interrupted" or result.adapter is None:
        shown.note(f"the warm start was stopped; to go on: art train --resume {directory.path}")
        raise KeyboardInterrupt
    return result.adapter


def _settings(config: TrainConfig, chats: int, directory: RunDir) -> SftConfig:
    assert config.warm_start is not None
    return SftConfig(
        epochs=config.warm_start.epochs,
        learning_rate=config.warm_start.learning_rate,
        validation_share=0.1 if chats >= _FEW else 0.0,
        max_row_tokens=config.max_row_tokens,
        micro_batch_tokens=config.training.micro_batch_tokens,
        seed=config.seed,
        precision=config.computed_in,  # type: ignore[arg-type]
        lora=config.lora,
        name=_PLACE,
        out=str(directory.path),
    )
