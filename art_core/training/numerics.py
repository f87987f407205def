"""Whether numbers that should be equal are: one check for each question, its figures and its answer.

Pure arithmetic on what was computed elsewhere (see ``passes`` and ``loop.numerics``). The bounds are made of a noise floor, see
``noise``. Where a bound would let anything pass, the answer is ``warn``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .noise import Floor, Gap, Logprobs, Rows, gap

__all__ = [
    "Check",
    "Figure",
    "Status",
    "TemperatureDraws",
    "check_adapter",
    "check_sampler",
    "check_sharing",
    "check_temperature",
    "finite",
]

BLIND = 1.0
"""A mean gap of so many nats, or a gradient as far away as its own length, is no agreement, whatever the floor."""
ERRORS, ROUNDING = 3.0, 1e-5
"""A mean ratio may miss 1 by so many standard errors, and by what rounding does to logprobs, which are always float32."""
UNSEEN = 3.0
"""Over the number of draws: a chance below it may well not show among them (the rule of three), nor in their spread."""

Status = Literal["pass", "warn", "fail"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured number and what it is held against."""

    name: str
    value: float
    unit: str = "nats"
    """``nats``, ``share`` or ``ratio``."""
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
            {key: finite(value) for key, value in figure.items()} | {"within": own.within}
            for figure, own in zip(record["figures"], self.figures, strict=True)
        ]
        return record


def check_sampler(trainer: Logprobs, rows: Rows, floor: Floor) -> Check:
    """The sampler's logprobs, as the rows hold them, against the trainer's of the same ids."""
    found = gap(trainer, [row.logprobs for row in rows], rows)
    figures = _gap_figures(found, floor)
    figures.append(Figure(name="tokens beyond the bound", value=found.beyond(floor.bounds[1]), unit="share", bound=0.0))
    figures.append(Figure(name="KL(sampler || trainer)", value=found.kl))
    check = _judged(
        "sampler-vs-trainer",
        "Does the trainer give sampled tokens the probability they were drawn with?",
        figures,
        f"{found.tokens} tokens of {len(rows)} rollouts",
        "what is trained is not what was sampled: do not train with this model here",
    )
    return _unless(check, floor.bounds[0] >= BLIND, f"equal passes differ too much in {floor.precision} to tell")


def check_adapter(unfolded: Logprobs, folded: Logprobs, base: Logprobs, rows: Rows, floor: Floor) -> Check:
    """The adapter computed beside the weights against the adapter folded into them.

    ``warn`` where the adapter changes so little that ``base``, the logprobs without it, would pass too.
    """
    found, effect = gap(folded, unfolded, rows), gap(base, unfolded, rows)
    figures = [*_gap_figures(found, floor), Figure(name="mean change by the adapter", value=effect.mean)]
    check = _judged(
        "adapter-vs-merged",
        "Is the adapter, folded into the weights, the adapter that is trained?",
        figures,
        f"{found.tokens} tokens of {len(rows)} rollouts",
        "sampling, or a merged export, computes with another adapter than training does",
    )
    mean, largest = floor.bounds
    blind = effect.mean <= mean and effect.largest <= largest
    return _unless(check, blind, f"the adapter changes too little to be told from none in {floor.precision}")


def check_sharing(
    shared: Logprobs,
    others: Mapping[str, tuple[Logprobs, float]],
    rows: Rows,
    floor: Floor,
    *,
    computed: float,
) -> Check:
    """The pass over shared prefixes against passes that share less or nothing.

    Args:
        others: by name the logprobs of such a pass, and the relative distance of the shared pass's gradient from its own.
        computed: tokens the shared pass ran, as a share of all tokens of the rows.
    """
    figures = [Figure(name="tokens computed, of all", value=computed, unit="share")]
    for name, (logprobs, distance) in others.items():
        found = gap(shared, logprobs, rows)
        figures += [replace(figure, name=f"{name}: {figure.name}") for figure in _gap_figures(found, floor)]
        figures.append(
            Figure(
                name=f"{name}: gradient",
                value=distance,
                unit="share",
                bound=floor.gradient_bound,
                floor=floor.gradient,
            )
        )
    check = _judged(
        "prefix-shared-vs-padded",
        "Does computing shared prompts once leave logprobs and gradients as they are?",
        figures,
        f"{len(rows)} rows" + ("" if computed < 1 else ", whose prompts this model does not share"),
        "the packed training step computes something else than the rows it is made of",
    )
    return _unless(check, floor.gradient_bound >= BLIND, f"their gradient is mostly noise in {floor.precision}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TemperatureDraws:
    """Logprobs, each (N,) in nats, of N tokens drawn at one temperature T.

    Two mean ratios are 1 where tokens were drawn with the probabilities that were recorded: ``exp(trainer - sampler)`` and
    ``exp(colder - sampler)``. For draws of the sampler's own distribution the mean of either is 1 whatever distribution
    stands in the numerator. So neither tells whether the *trainer* is at T, which the mean gap does. Draws made at another T than
    was recorded leave the first near 1, because both logprobs agree, but not the second. ``colder`` is below every
    temperature concerned: its ratio is bounded, and its standard error can be trusted. Taking the draws for ones at
    ``wrong_temperature``, ``exp(colder - wrong)`` must miss 1: that shows the check can fail. Given what came before it, a
    token's ratio has mean 1, so tokens of one rollout are uncorrelated, and the standard error is that of a plain mean. What is
    too rare to have been drawn is missing in mean and spread alike, which matters where the model is sure of nearly every
    token: the bound allows for it, with the ratio that a rare token has.
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
    """Whether tokens were drawn at the temperature they are trained at; see ``TemperatureDraws``.

    ``warn`` where so few tokens were drawn, or the model is so sure of them, that a wrong temperature would pass.
    """
    figures: list[Figure] = []
    for temperature, drawn in draws.items():
        name = f"T {temperature:g}"
        wrong = _ratio(f"{name} taken for {drawn.wrong_temperature:g}", drawn.colder - drawn.wrong, rare=1.0)
        figures += [
            Figure(
                name=f"{name}: mean gap",
                value=float(np.abs(drawn.trainer - drawn.sampler).mean()),
                bound=floor.bounds[0],
                floor=floor.mean,
            ),
            _ratio(f"{name}: ratio off 1", drawn.trainer - drawn.sampler, rare=min(1.0, floor.largest)),
            _ratio(f"{name}: colder ratio off 1", drawn.colder - drawn.sampler, rare=1.0),
            replace(wrong, at_least=True),
        ]
    check = _judged(
        "temperature",
        "Are tokens drawn at the temperature they are trained at?",
        [figure for figure in figures if not figure.at_least],
        f"{' and '.join(str(len(drawn.sampler)) for drawn in draws.values())} tokens",
        "the sampler draws from another distribution than the one whose logprobs are trained",
    )
    blind = not all(figure.within for figure in figures)
    return _unless(replace(check, figures=tuple(figures)), blind, "these are too few to tell a wrong temperature")


def _ratio(name: str, log_ratios: NDArray[np.float64], *, rare: float) -> Figure:
    """How far the mean ratio lies from 1, and what chance and rounding allow; ``rare`` is how far that of a rare token does."""
    with np.errstate(over="ignore", invalid="ignore"):
        ratios = np.exp(log_ratios)
        error = float(ratios.std(ddof=1) / math.sqrt(len(ratios))) if len(ratios) > 1 else math.inf
        off = abs(float(ratios.mean()) - 1)
    allowed = rare * UNSEEN / len(ratios)
    return Figure(name=name, value=off, unit="ratio", bound=ERRORS * error + ROUNDING + allowed)


def _gap_figures(found: Gap, floor: Floor) -> list[Figure]:
    mean, largest = floor.bounds
    return [
        Figure(name="mean gap", value=found.mean, bound=mean, floor=floor.mean),
        Figure(name="largest gap", value=found.largest, bound=largest, floor=floor.largest),
    ]


def _judged(name: str, question: str, figures: Sequence[Figure], basis: str, meaning: str) -> Check:
    passed = all(figure.within for figure in figures)
    note = f"measured on {basis}" + ("" if passed else f"; {meaning}")
    return Check(name=name, question=question, figures=tuple(figures), status="pass" if passed else "fail", note=note)


def _unless(check: Check, blind: bool, why: str) -> Check:
    """The check, or the warning that its passing says nothing."""
    return replace(check, status="warn", note=f"{check.note}; {why}") if blind and check.status == "pass" else check


def finite(value: Any) -> Any:
    """The value, or None for a number that is not finite: what JSON can hold."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
