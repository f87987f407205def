"""The trained adapter beside what it is to replace: the same test scenarios, reward and limits, answered by other models.

The entries stand in summary.json, which is written anew when the run goes on. ``compare.json`` holds them too, with the identity of
the adapter they are about, so that they come back where it is still the run's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from art_core.errors import InputError, RewardError
from art_core.rewards.account import Price
from art_core.training.manifest import MANIFEST
from art_core.trajectory import store
from art_core.trajectory.trajectory import Trajectory

from .evaluate import Evaluation, gain, outcomes_of
from .rundir import RunDir
from .usage import cost_of, usage_of

__all__ = ["TRAINED", "compared", "keep", "kept", "trained_rollouts"]

TRAINED = "trained"
"""The name of the run's own adapter among the subjects, and of its price."""
COMPARE = "compare.json"


def trained_rollouts(directory: RunDir) -> list[Trajectory]:
    """The rollouts of the run's adapter on its test scenarios, as its last evaluation left them.

    Raises:
        InputError: the run has not come to that.
    """
    path = directory.evaluation("after", "test", 0)
    if not (directory.read_summary() or {}).get("after") or not path.is_file():
        raise InputError(
            f"run {str(directory.path)!r} has no evaluation of its adapter on test scenarios to compare with: it has not ended, "
            "or held none out"
        )
    return list(store.read(path))


def compared(
    name: str, rollouts: Sequence[Trajectory], trained: Sequence[Trajectory], prices: Mapping[str, Price]
) -> dict[str, Any]:
    """What summary.json says of a subject.

    Raises:
        RewardError: none of its rollouts has a score; names the first reason.
    """
    own = _evaluation(rollouts)
    if not own.n:
        reason = next((outcome.reason for outcome in own.outcomes if outcome.reason), "the reward gave none")
        raise RewardError(f"none of the {len(rollouts)} rollouts with {name} has a score; the first reason: {reason}")
    cost = cost_of(rollouts, prices, trained=TRAINED)
    difference = None if name == TRAINED else gain(own, _evaluation(trained)).to_summary()
    return {
        "subject": name,
        **own.to_summary(),
        "rollouts": len(rollouts),
        "failed": sum(rollout.failed for rollout in rollouts),
        **usage_of(rollouts),
        "usd_per_1000_tasks": None if cost is None else round(cost, 6),
        "trained_minus_this": difference,
    }


def keep(directory: RunDir, entries: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Put the entries of subjects into summary.json, in the place of earlier ones of the same name; returns all there are."""
    summary = directory.read_summary() or {}
    found = list({entry["subject"]: entry for entry in (*summary.get("compare", ()), *entries)}.values())
    name = summary.get("checkpoint")
    adapter = None if name is None else _identity(directory.path / name)
    directory.write_json(COMPARE, {"checkpoint": name, "adapter": adapter, "entries": found})
    directory.write_summary({**summary, "compare": found})
    return found


def kept(directory: RunDir, checkpoint: Path | None, warn: Callable[[str], None]) -> Sequence[Mapping[str, Any]]:
    """The entries that are about the adapter in ``checkpoint``; ``warn`` is told of those that are about another one."""
    try:
        stored = directory.read_json(COMPARE)
    except InputError as error:
        warn(f"the comparison is left out: {error}")
        return ()
    if stored is None:
        return ()
    entries: Sequence[Mapping[str, Any]] = stored["entries"]
    if checkpoint is not None and stored["adapter"] == _identity(checkpoint):
        return entries
    again = " ".join(f"--compare {entry['subject']}" for entry in entries if entry["subject"] != TRAINED)
    warn(
        f"the comparison is left out of summary.json: it is about the adapter in {stored['checkpoint']}, which is not the run's "
        f"any more; make it anew with: art eval {directory.path} {again or '--compare NAME'}"
    )
    return ()


def _identity(checkpoint: Path) -> str | None:
    """What tells a checkpoint from every other one: the digest of its manifest, which holds those of its files."""
    path = checkpoint / MANIFEST
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def _evaluation(rollouts: Sequence[Trajectory]) -> Evaluation:
    return Evaluation(split="test", label="step", step=0, outcomes=outcomes_of(rollouts), seconds=0.0)
