"""Whether numbers that should be equal are: the checks' figures, their bounds, and the noise floor the bounds are made of.

Pure arithmetic on what was computed elsewhere (see ``passes`` and ``loop.numerics``).

**Noise floor.** Two passes over the same rows, in the same precision and by the plain code of transformers, that are equal on
paper and differ only in the order of their sums. In bfloat16 it also counts how far such a pass lies from the one in
float32, and the larger counts: sampler and trainer round in different places there, which no change of order shows. A
floor is never below one unit in the last place of the largest logprob.

**Bounds.** A mean gap may be ``MEAN`` times its floor, a largest gap ``LARGEST`` times, a gradient's distance ``GRADIENT`` times:
the largest of many varies more between equal passes than their mean does, and a gradient's distance is one number. In
float32 no bound exceeds a ceiling, however noisy the machine: ``CEILING`` nats for a logprob, ``RELATIVE_CEILING`` of the
largest logprob where only the packing differs, ``GRADIENT_CEILING`` for a gradient. bfloat16 has no ceiling: equal passes of a 135M-parameter model differ by 0.03 nats on average, by 0.3 at most and
by 5 % in the gradient. There a bound finds what is wrong by more than that (a temperature, an adapter folded twice) and cannot find a
scale that is a tenth off; float32 finds both. What is to be proven is therefore proven in float32.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from art_core.models.config import Precision
from art_core.trajectory.samples import TrainingSample

__all__ = [
    "Check",
    "Figure",
    "Floor",
    "Gap",
    "Status",
    "TemperatureDraws",
    "check_adapter",
    "check_sampler",
    "check_sharing",
    "check_temperature",
    "gap",
    "noise_floor",
]

MEAN, LARGEST, GRADIENT = 3.0, 5.0, 8.0
CEILING, RELATIVE_CEILING, GRADIENT_CEILING = 1e-4, 1e-5, 1e-4
ERRORS = 3.0
"""Standard errors by which a mean ratio may miss 1."""

_UNIT: Mapping[Precision, float] = {"float32": 2.0**-23, "bfloat16": 2.0**-8}

Status = Literal["pass", "warn", "fail"]
Logprobs = Sequence[NDArray[np.float32]]
Rows = Sequence[TrainingSample]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured number and what it is held against."""

    name: str
    value: float
    unit: str = "nats"
    """``nats``, ``share``, ``ratio`` or ``count``."""
    bound: float | None = None
    """None: it informs only."""
    floor: float | None = None
    """The noise floor the bound was made of."""
    at_least: bool = False
    """The bound is a minimum."""

    @property
    def within(self) -> bool:
        """Whether it keeps its bound; one that is not a number keeps none."""
        if self.bound is None:
            return True
        return self.value >= self.bound if self.at_least else self.value <= self.bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One question, what was measured, and the answer."""

    name: str
    question: str
    figures: tuple[Figure, ...] = ()
    status: Status = "pass"
    note: str = ""
    """One sentence: on what it was measured, and what an answer other than ``pass`` means."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; a number that is not finite becomes None."""
        record = asdict(self)
        record["figures"] = [
            {key: _finite(value) for key, value in figure.items()} | {"within": own.within}
            for figure, own in zip(record["figures"], self.figures, strict=True)
        ]
        return record


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """How far two sets of logprobs of the same tokens lie apart, in nats."""

    tokens: int
    mean: float
    """Of the absolute differences."""
    largest: float
    kl: float
    """Estimate of KL(second || first): mean of ``r - 1 - log r`` with r the first's probability over the second's."""
    differences: NDArray[np.float64] = field(repr=False)
    """(tokens,) first minus second."""
    scale: float
    """The largest absolute logprob of the second."""

    def beyond(self, bound: float) -> float:
        """The share of tokens whose difference is larger than ``bound``."""
        return float((~(np.abs(self.differences) <= bound)).mean())


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """What equal passes differ by on this machine; see the head of this module."""

    precision: Precision
    mean: float
    largest: float
    gradient: float
    """Relative L2 distance."""
    tokens: int
    """Trained tokens it was measured on."""

    def bounds(self, ceiling: float) -> tuple[float, float]:
        """The bounds of a mean and of a largest gap."""
        return self._capped(MEAN * self.mean, ceiling), self._capped(LARGEST * self.largest, ceiling)

    @property
    def gradient_bound(self) -> float:
        """The bound of a gradient's distance."""
        return self._capped(GRADIENT * self.gradient, GRADIENT_CEILING)

    def _capped(self, bound: float, ceiling: float) -> float:
        return min(bound, ceiling) if self.precision == "float32" else bound


def gap(first: Logprobs, second: Logprobs, rows: Rows) -> Gap:
    """Compare per-row (L,) logprobs at the trained tokens of ``rows``."""
    pairs = [
        (one[row.mask].astype(np.float64), two[row.mask].astype(np.float64))
        for one, two, row in zip(first, second, rows, strict=True)
    ]
    differences = np.concatenate([one - two for one, two in pairs])
    sizes = np.abs(differences)
    with np.errstate(over="ignore"):
        divergences = np.exp(differences) - 1 - differences
    return Gap(
        tokens=len(differences),
        mean=float(sizes.mean()),
        largest=float(sizes.max()),
        kl=float(divergences.mean()),
        differences=differences,
        scale=float(max(np.abs(two).max() for _, two in pairs)),
    )


def noise_floor(gaps: Sequence[Gap], distances: Sequence[float], *, precision: Precision) -> Floor:
    """The floor of several pairs of equal passes: the largest of each figure.

    Args:
        gaps: of their logprobs. ``distances``: of their gradients, relative.
    """
    least = _UNIT[precision] * max(1.0, *(found.scale for found in gaps))
    return Floor(
        precision=precision,
        mean=max(least / 4, *(found.mean for found in gaps)),  # rounding to a unit errs by a quarter of it on average
        largest=max(least, *(found.largest for found in gaps)),
        gradient=max(_UNIT[precision], *distances),
        tokens=gaps[0].tokens,
    )


def check_sampler(trainer: Logprobs, rows: Rows, floor: Floor) -> Check:
    """The sampler's logprobs, as the rows hold them, against the trainer's of the same ids."""
    found = gap(trainer, [row.logprobs for row in rows], rows)
    figures = [*_gap_figures(found, floor, CEILING)]
    figures.append(
        Figure(name="tokens beyond the bound", value=found.beyond(floor.bounds(CEILING)[1]), unit="share", bound=0.0)
    )
    figures.append(Figure(name="KL(sampler || trainer)", value=found.kl))
    return _judged(
        "sampler-vs-trainer",
        "Does the trainer give sampled tokens the probability they were drawn with?",
        figures,
        f"{found.tokens} tokens of {len(rows)} rollouts",
        "what is trained is not what was sampled: do not train with this model here",
    )


def check_adapter(unfolded: Logprobs, folded: Logprobs, rows: Rows, floor: Floor) -> Check:
    """The adapter computed beside the weights against the adapter folded into them."""
    found = gap(folded, unfolded, rows)
    return _judged(
        "adapter-vs-merged",
        "Is the adapter, folded into the weights, the adapter that is trained?",
        _gap_figures(found, floor, CEILING),
        f"{found.tokens} tokens of {len(rows)} rollouts",
        "sampling, or a merged export, computes with another adapter than training does",
    )


def check_sharing(shared: Logprobs, others: Mapping[str, tuple[Logprobs, float]], rows: Rows, floor: Floor) -> Check:
    """The pass over shared prefixes against passes that share nothing.

    Args:
        others: by name the logprobs of such a pass, and the relative distance of the shared pass's gradient from its own.
    """
    figures: list[Figure] = []
    for name, (logprobs, distance) in others.items():
        found = gap(shared, logprobs, rows)
        ceiling = RELATIVE_CEILING * max(1.0, found.scale)
        figures += [replace(figure, name=f"{figure.name}, {name}") for figure in _gap_figures(found, floor, ceiling)]
        figures.append(
            Figure(
                name=f"gradient, {name}",
                value=distance,
                unit="share",
                bound=floor.gradient_bound,
                floor=floor.gradient,
            )
        )
    return _judged(
        "prefix-shared-vs-padded",
        "Does computing shared prompts once leave logprobs and gradients as they are?",
        figures,
        f"{len(rows)} rows",
        "the packed training step computes something else than the rows it is made of",
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TemperatureDraws:
    """Logprobs, each (N,) in nats, of N tokens drawn at one temperature T.

    Two mean ratios are 1 where all is right. ``exp(trainer - sampler)`` says that both agree on T. Its mean over draws from
    the sampler's distribution is 1 whatever the trainer's distribution is, so it says little about a wrong T; therefore the second, ``exp(colder
    - trainer)``: its mean is 1 only where the tokens were drawn from the trainer's distribution at T, and since ``colder`` is
    below every temperature concerned, the ratio is bounded and its standard error can be trusted. Taking the draws for ones at
    ``wrong_temperature``, ``exp(colder - wrong)``, must miss 1: that shows the check can fail. Given what came before it a
    token's ratio has mean 1, so tokens of one rollout are uncorrelated and their standard error is that of the mean.
    """

    sampler: NDArray[np.float64]
    """As recorded when they were drawn."""
    trainer: NDArray[np.float64]
    """The trainer's at T."""
    colder: NDArray[np.float64]
    """The trainer's at a temperature below T and ``wrong_temperature``."""
    wrong: NDArray[np.float64]
    """The trainer's at ``wrong_temperature``."""
    wrong_temperature: float


def check_temperature(draws: Mapping[float, TemperatureDraws], floor: Floor) -> Check:
    """Whether tokens were drawn at the temperature they are trained at; see ``TemperatureDraws``."""
    figures: list[Figure] = []
    blind: list[str] = []
    for temperature, drawn in draws.items():
        name = f"T {temperature:g}"
        figures += [
            _ratio(f"{name}: mean ratio, off 1 by", drawn.trainer - drawn.sampler, floor),
            _ratio(f"{name}: colder ratio, off 1 by", drawn.colder - drawn.trainer, floor),
        ]
        wrong = _ratio(f"{name} taken for {drawn.wrong_temperature:g}: off 1 by", drawn.colder - drawn.wrong, floor)
        if wrong.within:
            blind.append(name)
        figures.append(
            Figure(
                name=wrong.name, value=wrong.value, unit="ratio", bound=wrong.bound, floor=wrong.floor, at_least=True
            )
        )
    tokens = " and ".join(str(len(drawn.sampler)) for drawn in draws.values())
    check = _judged(
        "temperature",
        "Are tokens drawn at the temperature they are trained at?",
        [figure for figure in figures if not figure.at_least],
        f"{tokens} tokens",
        "the sampler draws from another distribution than the one whose logprobs are trained",
    )
    note, status = check.note, check.status
    if blind:
        status = "warn" if status == "pass" else status
        note = f"{note}; too few tokens to tell a wrong temperature from the right one at {' and '.join(blind)}"
    return Check(name=check.name, question=check.question, figures=tuple(figures), status=status, note=note)


def _ratio(name: str, log_ratios: NDArray[np.float64], floor: Floor) -> Figure:
    """How far the mean ratio lies from 1, and what chance and rounding allow."""
    with np.errstate(over="ignore", invalid="ignore"):
        ratios = np.exp(log_ratios)
        error = float(ratios.std(ddof=1) / math.sqrt(len(ratios))) if len(ratios) > 1 else math.inf
        off = abs(float(ratios.mean()) - 1)
    return Figure(name=name, value=off, unit="ratio", bound=ERRORS * error + floor.mean, floor=floor.mean)


def _gap_figures(found: Gap, floor: Floor, ceiling: float) -> list[Figure]:
    mean, largest = floor.bounds(ceiling)
    return [
        Figure(name="mean gap", value=found.mean, bound=mean, floor=floor.mean),
        Figure(name="largest gap", value=found.largest, bound=largest, floor=floor.largest),
    ]


def _judged(name: str, question: str, figures: Sequence[Figure], basis: str, meaning: str) -> Check:
    passed = all(figure.within for figure in figures)
    note = f"measured on {basis}" + ("" if passed else f"; {meaning}")
    return Check(name=name, question=question, figures=tuple(figures), status="pass" if passed else "fail", note=note)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
