"""What a deterministic run refuses: everything by which the clock or another machine would decide its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from art_core.errors import InputError, TrainerError
from art_core.trajectory.trajectory import Trajectory

__all__ = ["DECISIVE_PACKAGES", "check_same_machine", "computing", "decided_by_time", "refuse_time_limits"]

DECISIVE_PACKAGES = ("art-integrations", "torch", "transformers", "tokenizers", "peft", "numpy", "jinja2")
"""Packages whose version decides ids, logprobs or weights."""
_COMPUTING = ("device", "precision", "threads", "lanes")
_ADVICE = {"threads": "; set OMP_NUM_THREADS={}"}


def decided_by_time(trajectory: Trajectory) -> bool:
    """Whether a time limit of ours cut the rollout or its reward off."""
    return trajectory.stop_reason == "timeout" or bool(trajectory.metrics.get("time_limits"))


def refuse_time_limits(rollouts: Iterable[Trajectory]) -> None:
    """
    Raises:
        TrainerError: a time limit decided something; names the rollout.
    """
    cut = next((trajectory for trajectory in rollouts if decided_by_time(trajectory)), None)
    if cut is not None:
        raise TrainerError(
            f"rollout {cut.rollout_id!r} or its reward was cut off by a time limit, which must not decide anything in a "
            "deterministic run; resume it to sample the rollout again, or begin a run with higher rollout.limits"
        )


def computing(using: Mapping[str, Any]) -> dict[str, Any]:
    """What of ``Backend.describe`` decides numbers."""
    return {name: using[name] for name in _COMPUTING if name in using}


def check_same_machine(recorded: Mapping[str, Any], present: Mapping[str, Any]) -> None:
    """Compare what decides numbers in two environments: processor, packages, and what is computed in.

    What only one of them tells is not compared.

    Raises:
        InputError: something differs; names it, with both values.
    """
    before, now = _decisive(recorded), _decisive(present)
    for name, value in before.items():
        if now.get(name, value) != value:
            advice = _ADVICE.get(name, "").format(value)
            raise InputError(
                f"a deterministic run goes on where it began: {name} was {value} and is {now[name]} now{advice}"
            )


def _decisive(environment: Mapping[str, Any]) -> dict[str, Any]:
    packages = environment.get("packages", {})
    return {
        **{name: environment[name] for name in ("cpu",) if name in environment},
        **{name: packages[name] for name in DECISIVE_PACKAGES if name in packages},
        **environment.get("computing", {}),
    }
