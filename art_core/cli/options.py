"""The options every training verb shares, and what they come to; an option that is not given (None) changes nothing.

Verbs flatten them into their own: ``options: Annotated[TrainOptions, Parameter(name="*")] = TrainOptions()``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter

from art_core.loop.config import TrainConfig

__all__ = ["TrainOptions", "given"]

_STOP = Group("When to stop", sort_key=1)
_LEARN = Group("How to learn", sort_key=2)
_RUN = Group("The run", sort_key=3)

_FIELDS: Mapping[str, tuple[str, ...]] = {
    "steps": ("steps",),
    "max_time": ("max_time",),
    "target": ("target",),
    "patience": ("patience",),
    "keep_checkpoints": ("keep_checkpoints",),
    "best_metric": ("best_metric",),
    "best_mode": ("best_mode",),
    "seed": ("seed",),
    "deterministic": ("deterministic",),
    "name": ("name",),
    "out": ("out",),
    "precision": ("precision",),
    "group_size": ("rollout", "group_size"),
    "trained_per_group": ("trained_per_group",),
    "scenarios_per_step": ("rollout", "scenarios_per_step"),
    "curriculum": ("rollout", "curriculum"),
    "concurrency": ("rollout", "concurrency"),
    "temperature": ("rollout", "temperature"),
    "max_tokens": ("rollout", "max_tokens"),
    "learning_rate": ("training", "learning_rate"),
    "rank": ("lora", "rank"),
    "start_from": ("lora", "start"),
    "warm_start": ("warm_start", "run"),
    "warm_start_min_reward": ("warm_start", "min_reward"),
    "eval_every": ("evaluation", "every"),
    "validation": ("evaluation", "validation"),
    "test": ("evaluation", "test"),
}
"""Option → where it goes in ``TrainConfig``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions:
    """What can be said on the command line of every training verb."""

    model: Annotated[str | None, Parameter(group=_RUN)] = None
    """Base model: a name from `art models`, a directory or a model id. Default: smollm2-135m."""
    steps: Annotated[int | None, Parameter(group=_STOP)] = None
    """Training steps at most."""
    max_time: Annotated[str | None, Parameter(group=_STOP)] = None
    """Time it may take, last evaluation included: 90s, 10m, 1h30m."""
    target: Annotated[float | None, Parameter(group=_STOP)] = None
    """Stop at this validation success rate, such as 0.8."""
    patience: Annotated[int | None, Parameter(group=_STOP)] = None
    """Stop after so many validations without a new best."""
    group_size: Annotated[int | None, Parameter(group=_LEARN)] = None
    """Rollouts of each scenario that are compared with each other."""
    trained_per_group: Annotated[int | None, Parameter(group=_LEARN)] = None
    """Train on so many of them only, those whose rewards differ most."""
    scenarios_per_step: Annotated[int | None, Parameter(group=_LEARN)] = None
    """Scenarios per training step."""
    curriculum: Annotated[Literal["none", "pass_rate"] | None, Parameter(group=_LEARN)] = None
    """pass_rate: scenarios that are always or never solved come less often."""
    concurrency: Annotated[int | None, Parameter(group=_LEARN)] = None
    """Rollouts that run at the same time."""
    learning_rate: Annotated[float | None, Parameter(group=_LEARN)] = None
    """Of the LoRA. Default: 5e-4, or 1e-4 with --start-from or --warm-start."""
    rank: Annotated[int | None, Parameter(group=_LEARN)] = None
    """Of the LoRA."""
    start_from: Annotated[str | None, Parameter(group=_LEARN)] = None
    """Begin from this adapter: a PEFT directory, or the directory of a run; its rank is taken over."""
    warm_start: Annotated[str | None, Parameter(group=_LEARN)] = None
    """Fine-tune first on the rollouts in this directory of `art collect` that pass the reward."""
    warm_start_min_reward: Annotated[float | None, Parameter(group=_LEARN)] = None
    """Where the reward tells no success, on those with at least this reward."""
    temperature: Annotated[float | None, Parameter(group=_LEARN)] = None
    """Of sampling while training."""
    max_tokens: Annotated[int | None, Parameter(group=_LEARN)] = None
    """Sampled tokens per turn."""
    eval_every: Annotated[int | None, Parameter(group=_LEARN)] = None
    """Steps between validations."""
    validation: Annotated[int | None, Parameter(group=_LEARN)] = None
    """Scenarios held out to choose the best adapter."""
    test: Annotated[int | None, Parameter(group=_LEARN)] = None
    """Scenarios held out for the figures before and after."""
    keep_checkpoints: Annotated[int | None, Parameter(group=_RUN)] = None
    """Newest checkpoints to keep; the best one is kept besides."""
    best_metric: Annotated[str | None, Parameter(group=_RUN)] = None
    """Figure that decides which one is the best, such as reward, reward_mean or reward_parts.format."""
    best_mode: Annotated[Literal["max", "min"] | None, Parameter(group=_RUN)] = None
    """Whether more or less of it is better."""
    seed: Annotated[int | None, Parameter(group=_RUN)] = None
    """Of everything random."""
    deterministic: Annotated[bool | None, Parameter(negative="", group=_RUN)] = None
    """The same bytes again, whatever the timing, also after a kill and --resume; samples more slowly."""
    precision: Annotated[Literal["auto", "float32", "bfloat16"] | None, Parameter(group=_RUN)] = None
    """Of the computations; auto measures which one this machine is faster at."""
    name: Annotated[str | None, Parameter(group=_RUN)] = None
    """Name of the run and its directory."""
    out: Annotated[str | None, Parameter(group=_RUN)] = None
    """Directory to put runs in. Default: runs."""
    resume: Annotated[str | None, Parameter(group=_RUN)] = None
    """Directory of a run to go on with; only when to stop and what to keep may be changed."""
    json_output: Annotated[bool, Parameter(name="--json", negative="", group=_RUN)] = False
    """Print the summary as one JSON object; progress goes to standard error."""
    quiet: Annotated[bool, Parameter(negative="", group=_RUN)] = False
    """Show the result only."""

    def config(self, base: TrainConfig | None = None) -> TrainConfig:
        """``base`` (the defaults unless given) with every option that was given.

        Raises:
            InputError: a value is not valid; the message names it.
        """
        values: dict[str, Any] = (base or TrainConfig()).model_dump(mode="json", exclude_none=True, exclude_unset=True)
        for option, value in given({option: getattr(self, option) for option in _FIELDS}).items():
            *parts, last = _FIELDS[option]
            table = values
            for part in parts:
                table = table.setdefault(part, {})
            table[last] = value
        return TrainConfig.build(values)


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the options that were given.

    >>> given({"seed": 0, "name": None})
    {'seed': 0}
    """
    return {name: value for name, value in options.items() if value is not None}
