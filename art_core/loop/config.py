"""TrainConfig: everything that decides how a run goes, as one strict record with a nested record per room.

Importing it loads no torch. What may change when a run is resumed is listed in ``LIMITS``; everything else decides
numbers and stays as the run began.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from art_core.config import Config
from art_core.errors import InputError
from art_core.models.config import LoraConfig
from art_core.rollout.limits import Limits
from art_core.training.advantages import EPSILON, Baseline, Scale
from art_core.training.config import TrainingConfig

from .figures import Metric
from .retention import Mode

__all__ = [
    "AFTER_START",
    "LIMITS",
    "Duration",
    "EvaluationConfig",
    "LoraConfig",
    "RolloutConfig",
    "RunConfig",
    "TrainConfig",
    "WarmStartConfig",
    "parse_duration",
]

LIMITS = frozenset(
    {"steps", "max_time", "target", "patience", "flat_steps", "keep_checkpoints", "best_metric", "best_mode"}
)
"""Fields of ``TrainConfig`` that only say when to stop or what to keep: a resumed run may change them. ``best_metric`` is
one: it decides no number of any step, and it is judged anew from all rows, over the checkpoints that are still there."""

AFTER_START = 1e-4
"""The learning rate of a run that begins from an adapter, unless it is given one."""

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_duration(value: Any) -> float:
    """Seconds from a number, or from text such as ``90s``, ``10m``, ``1h`` or ``1h30m``.

    >>> parse_duration("1h30m")
    5400.0

    Raises:
        InputError: it is neither, or not above 0.
    """
    if isinstance(value, str):
        text = value.replace(" ", "").lower()
        parts = re.findall(r"(\d+(?:\.\d+)?)([smhd]?)", text)
        whole = "".join(number + unit for number, unit in parts) == text and bool(parts)
        if not whole or (len(parts) > 1 and any(not unit for _, unit in parts)):
            raise InputError(f"duration {value!r} is not understood; write it as 90s, 10m, 1h or 1h30m")
        seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    else:
        raise InputError(f"duration {value!r} is not understood; write it as 90s, 10m, 1h or 1h30m")
    if not 0 < seconds < float("inf"):
        raise InputError(f"duration {value!r} must be above 0")
    return seconds


Duration = Annotated[float, BeforeValidator(parse_duration)]
"""Seconds; also written ``"10m"``."""


class RolloutConfig(Config):
    """How experience is gathered."""

    group_size: int = Field(default=8, ge=2)
    """Siblings per scenario: what is compared with each other."""
    scenarios_per_step: int = Field(default=4, ge=1)
    """Groups per training step."""
    curriculum: Literal["none", "pass_rate"] = "none"
    """``none``: every scenario comes equally often. ``pass_rate``: those whose siblings all came out alike so far, always
    or never solved, come less often, down to a quarter. Shows its effect from the second epoch on."""
    concurrency: int = Field(default=32, ge=1)
    """Rollouts that run at the same time."""
    temperature: float = Field(default=1.0, gt=0)
    """Of sampling while training; logprobs are taken at it."""
    max_tokens: int = Field(default=256, ge=1)
    """Sampled tokens per turn."""
    limits: Limits = Field(default_factory=Limits)
    """What one rollout may use up."""


class EvaluationConfig(Config):
    """How progress is measured."""

    validation: int = Field(default=24, ge=0)
    """Scenarios held out to watch progress and to choose the best adapter; at most a fifth of all, 0 for none."""
    test: int = Field(default=60, ge=0)
    """Scenarios held out for the figures before and after; at most a third of all, 0 for none."""
    every: int = Field(default=5, ge=1)
    """Steps between validations."""
    temperature: float = Field(default=0.0, ge=0)
    """Of sampling while evaluating; 0 is greedy."""


class WarmStartConfig(Config):
    """Fine-tuning on what another model did well, before any training of the run's own."""

    run: str
    """A directory of collected rollouts (``art collect``), relative to the current directory. Those whose reward says that they
    succeeded are learnt from, except those of scenarios that this run holds out."""
    min_reward: float | None = None
    """Where the reward tells no success, learn from rollouts with at least this one."""
    epochs: int = Field(default=3, ge=1)
    """How often every chat is trained on."""
    learning_rate: float = Field(default=5e-4, gt=0)
    """Of the fine-tuning, falling to zero at its end."""


class RunConfig(Config):
    """What every kind of run has."""

    limits: ClassVar[frozenset[str]] = frozenset({"max_time", "keep_checkpoints"})
    """Fields that only say when to stop or what to keep: a resumed run may change them."""

    max_time: Duration | None = None
    """Seconds this call may take, the last evaluation included."""
    keep_checkpoints: int = Field(default=3, ge=1)
    """Newest checkpoints to keep; the best one is kept besides."""
    seed: int = 0
    """Of everything random."""
    name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """Of the run's directory; made from the date if not given."""
    out: str = "runs"
    """The directory that runs are put in."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of the base weights; ``auto`` measures which one this machine is faster at."""
    lora: LoraConfig = Field(default_factory=LoraConfig)

    def resumed(self, other: Self) -> Self:
        """This configuration with the limits of ``other``, for going on with a run that began with this one.

        Only what ``other`` was given counts; what it has by default stays as it is here.

        Raises:
            InputError: ``other`` differs in something that decides numbers; the message names it.
        """
        for name in sorted(other.model_fields_set - self.limits - {"name", "out"}):
            if difference := _difference(name, getattr(self, name), getattr(other, name)):
                raise InputError(f"a resumed run keeps its settings: {difference}")
        given = {name: getattr(other, name) for name in self.limits & other.model_fields_set}
        return self.build(self.model_copy(update=given).to_dict())


class TrainConfig(RunConfig):
    """A whole run.

    >>> TrainConfig(steps=3, max_time="10m").max_time
    600.0
    """

    limits: ClassVar[frozenset[str]] = LIMITS

    deterministic: bool = False
    """The same bytes again, also after a kill and a resume, whatever the timing: every completion is computed as if it
    were alone, which is slower. ``precision`` ``auto`` is ``float32`` then, and time may decide nothing: a rollout or a
    reward that a time limit cuts off ends the run. Tools and rewards must answer the same every time."""
    steps: int = Field(default=20, ge=1)
    """Training steps at most, over all resumes."""
    target: float | None = None
    """Stop when the validation success rate (the mean reward, where the reward tells no success) reaches this."""
    patience: int | None = Field(default=None, ge=1)
    """Stop after so many validations in a row without a new best one (by ``best_metric``, where that is one of theirs)."""
    flat_steps: int = Field(default=8, ge=1)
    """Stop after so many steps in a row in which all siblings scored the same, so that nothing could be trained."""
    best_metric: str | None = None
    """The figure of validations (``reward``, ``success``, ``reward_parts.format``) or of training steps (``reward_mean``,
    ``kl_behaviour``, ``train.success``) that decides which checkpoint is the best: the one that is kept, and measured and
    handed over at the end. Unless given: the success of validations, then their mean reward."""
    best_mode: Mode = "max"
    """Whether more or less of ``best_metric`` is better."""
    advantage_scale: Scale = "std"
    """``std`` divides a group's advantages by the spread of its rewards, ``batch`` by that of all rewards of the step;
    ``none`` leaves them as they are."""
    advantage_baseline: Baseline = "mean"
    """Rewards are compared with the ``mean`` of the group, or, ``leave_one_out``, with that of the other siblings."""
    advantage_epsilon: float = Field(default=EPSILON, gt=0)
    """Added to that spread: rewards that differ by less than about this count for less."""
    trained_per_group: int | None = Field(default=None, ge=2)
    """Train only on so many siblings of each group, those whose rewards differ most; all unless given. Sampling is
    cheaper than training, so more siblings can be compared in the same time."""
    max_row_tokens: int | None = Field(default=None, ge=2)
    """A rollout with a longer row is not trained and counted as over-long; bounds the trainer's memory."""
    warm_start: WarmStartConfig | None = None
    """Begin from an adapter that is fine-tuned first; what is measured as ``before`` is the base model still."""
    rollout: RolloutConfig = Field(default_factory=RolloutConfig)
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    evaluation: EvaluationConfig = Field(default_factory=EvaluationConfig)

    @model_validator(mode="after")
    def _gentle(self) -> TrainConfig:
        """A run that begins from an adapter, and is not told how fast to learn, does not undo it; see docs/benchmarks.md."""
        if self.first_checkpoint == 0 and "learning_rate" not in self.training.model_fields_set:
            gentle = self.training.model_copy(update={"learning_rate": AFTER_START})
            object.__setattr__(self, "training", gentle)  # the record is frozen for everybody else
        return self

    @model_validator(mode="after")
    def _consistent(self) -> TrainConfig:
        for name in ("target", "patience"):
            if getattr(self, name) is not None and self.evaluation.validation == 0:
                raise InputError(f"{name} needs validation scenarios; set evaluation.validation above 0")
        if self.deterministic and self.max_time is not None:
            raise InputError(
                f"max_time = {self.max_time:g} s would let the clock decide when a deterministic run ends; "
                "limit it with steps, target or patience"
            )
        self._check_best()
        if self.advantage_scale == "none" and self.advantage_epsilon != EPSILON:
            raise InputError(
                f"advantage_epsilon = {self.advantage_epsilon:g} has no effect with advantage_scale 'none'"
            )
        if self.warm_start is not None and self.lora.start is not None:
            raise InputError(
                f"lora.start {self.lora.start!r} and warm_start {self.warm_start.run!r} both say where the run begins; "
                "leave one of them out"
            )
        if self.training.kl_reference == "start" and self.lora.start is None and self.warm_start is None:
            raise InputError(
                "training.kl_reference 'start' needs an adapter to start from; set lora.start or warm_start"
            )
        return self

    @property
    def computed_in(self) -> str:
        """What to compute in: ``precision``, or ``float32`` where a deterministic run would have to measure."""
        return "float32" if self.deterministic and self.precision == "auto" else self.precision

    @property
    def first_checkpoint(self) -> int:
        """The step of the run's first checkpoint: 0 if it begins from an adapter, which can be its best, else 1."""
        return 1 if self.lora.start is None and self.warm_start is None else 0

    def _check_best(self) -> None:
        if self.best_metric is None:
            if self.best_mode != "max":
                raise InputError(f"best_mode = {self.best_mode!r} has no effect without best_metric")
            return
        metric = Metric.parse(self.best_metric)
        if metric.source == "validation" and self.evaluation.validation == 0:
            raise InputError(
                f"best_metric {self.best_metric!r} needs validation scenarios; set evaluation.validation above 0, or name "
                "a figure of training steps, such as reward_mean"
            )
        if metric.column == "kl_base" and self.training.kl_coefficient == 0:
            raise InputError("best_metric 'kl_base' is measured only with training.kl_coefficient above 0")


def _difference(name: str, mine: Any, new: Any) -> str | None:
    """What was given in ``new`` and is not so in ``mine``."""
    if isinstance(new, Config):
        found = (_difference(f"{name}.{key}", getattr(mine, key), getattr(new, key)) for key in new.model_fields_set)
        return next((difference for difference in found if difference), None)
    return None if mine == new else f"{name} is {mine!r} in the run and {new!r} now"
