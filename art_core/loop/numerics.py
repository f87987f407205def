"""Five checks of whether the numbers can be trusted: with this model, on this machine, in this precision.

Rollouts are sampled by the product's own engine and looked at by its trainer; ``training.numerics`` judges. Everything is
seeded by the configuration, so the same machine gives the same figures.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from art_core.errors import InputError
from art_core.messages import Message
from art_core.models.config import Precision
from art_core.rollout.group import gather
from art_core.rollout.session import Session
from art_core.scenario import Scenario
from art_core.training.noise import Floor, gap, noise_floor
from art_core.training.numerics import (
    Check,
    TemperatureDraws,
    check_adapter,
    check_sampler,
    check_sharing,
    check_temperature,
    finite,
)
from art_core.trajectory.samples import TrainingSample
from art_core.trajectory.trajectory import Trajectory

from .bench import Bench
from .rerender import check_rerendering, later_turns
from .subject import Subject

__all__ = ["Drift", "NumericsReport", "measure_numerics"]

Rows = list[TrainingSample]

_QUESTIONS = (
    ("What is the capital of France, and what is it known for?", "And of Japan?"),
    ("Write one sentence about the sea.", "Now one about the desert, with a number in it."),
    ("What time is it in Tokyo when it is 09:30 in Berlin?", "Write it as hh:mm and name the weekday."),
)
_SIBLINGS, _DRAWS = 4, 8  # rollouts of a prompt, and of a prompt at one of the temperatures that are compared
_TOKENS = 24
_TEMPERATURES, _COLDER = (0.7, 1.3), 0.5
_PLAIN_ROWS = 6
_PLAIN_TOKENS = 1536  # tokens of the rows that are also run whole, several times and with gradients


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How far a precision alone moves the plain pass over the rows of the noise floor away from the one in float32."""

    mean: float
    """Of the gaps between the logprobs, in nats."""
    largest: float
    gradient: float
    """Relative L2 distance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NumericsReport:
    """What was measured on what, and every check's answer."""

    subject: str
    base_model: str
    device: str
    precision: Precision
    temperature: float
    floor: Floor
    gap_to_float32: Drift | None = None
    """None in float32. It informs: no check is judged by it alone, and it is part of the floor."""
    checks: tuple[Check, ...]
    seconds: float

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the checks that failed."""
        return tuple(check.name for check in self.checks if check.status == "fail")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        record = dataclasses.asdict(self)
        for part in ("floor", "gap_to_float32"):
            record[part] = record[part] and {name: finite(value) for name, value in record[part].items()}
        return {**record, "checks": [check.to_dict() for check in self.checks], "failed": list(self.failed)}


def measure_numerics(
    subject: Subject, precision: str = "auto", *, say: Callable[[str], None] = lambda line: None
) -> NumericsReport:
    """Make all checks in a precision: ``auto`` (measured), ``float32`` or ``bfloat16``.

    ``say`` is told what is being done, a line at a time.

    Raises:
        InputError: the model cannot be loaded, the adapter does not fit, or no prompt leaves room in the context.
    """
    return asyncio.run(_measure(subject, precision, say))


async def _measure(subject: Subject, precision: str, say: Callable[[str], None]) -> NumericsReport:
    began = time.monotonic()
    say(f"loading {subject.base_model}")
    bench = await asyncio.to_thread(Bench, subject, precision)
    try:
        await bench.open()
        temperature = subject.config.rollout.temperature
        prompts = _prompts(subject, bench)
        say("sampling")
        rows = await _sample(bench, prompts, temperature, _SIBLINGS)
        draws = {t: await _sample(bench, prompts, t, _DRAWS) for t in _TEMPERATURES}
        floor, drift, checks = await asyncio.to_thread(_compare, bench, rows, draws, say)
        say("rendering later turns again")
        checks.append(await _rerender(subject, bench))
    finally:
        await bench.close()
    return NumericsReport(
        subject=subject.title,
        base_model=subject.base_model,
        device=bench.device,
        precision=bench.precision,
        temperature=temperature,
        floor=floor,
        gap_to_float32=drift,
        checks=tuple(checks),
        seconds=round(time.monotonic() - began, 1),
    )


async def _sample(bench: Bench, prompts: Sequence[Sequence[int]], temperature: float, siblings: int) -> Rows:
    return await bench.sample(prompts, siblings=siblings, max_tokens=_TOKENS, temperature=temperature)


def _prompts(subject: Subject, bench: Bench) -> list[tuple[int, ...]]:
    """Some of the prompts the run has sampled from, the shortest; of a model, or where there are none, our own."""
    recorded = {
        tuple(path[: len(path) - len(turn.completion_ids)])
        for trajectory in subject.trajectories
        for turn in trajectory.graph
        if (path := trajectory.graph.path(turn.id))
    }
    own = [tuple(bench.renderer.prompt([Message(role="user", content=first)], ())) for first, _ in _QUESTIONS]
    for found in (sorted(recorded, key=lambda prompt: (len(prompt), prompt)), own):
        fitting = [prompt for prompt in found if prompt and len(prompt) + _TOKENS <= bench.context]
        if fitting:
            return fitting[: len(_QUESTIONS)]
    raise InputError(f"model {subject.base_model!r} has a context of {bench.context} tokens; no prompt fits")


def _compare(
    bench: Bench, rows: Rows, draws: dict[float, Rows], say: Callable[[str], None]
) -> tuple[Floor, Drift | None, list[Check]]:
    """The checks that need no further sampling; on a thread of its own."""
    few = _few(rows)
    shares = [1.0 if number % 2 == 0 else -0.5 for number in range(len(few))]  # equal rows must not cancel out
    say("measuring the noise floor")
    plain = bench.plain(few, shares)
    equal = [bench.plain(few, shares, reordered=True)]
    if bench.precision != "float32":
        equal.append(bench.plain(few, shares, precision="float32"))
    gaps = [gap(other.logprobs, plain.logprobs, few) for other in equal]
    distances = [other.distance(plain) for other in equal]
    floor = noise_floor(gaps, distances, precision=bench.precision)
    drift = None
    if bench.precision != "float32":
        drift = Drift(mean=gaps[-1].mean, largest=gaps[-1].largest, gradient=distances[-1])
    say("comparing sampler and trainer")
    checks = [
        check_sampler(bench.trainer.logprobs(rows), rows, floor),
        check_adapter(plain.logprobs, bench.merged(few), bench.unadapted(few), few, floor),
    ]
    say("comparing shared prefixes with whole rows")
    shared = bench.tree(few, shares, shared=True)
    pieces = max(1, max(len(row.token_ids) for row in few) // 2)
    others = {
        "rows alone": bench.tree(few, shares, shared=False),
        "cut into pieces": bench.tree(few, shares, shared=True, micro_batch_tokens=pieces),
        "padded": plain,
    }
    compared = {name: (other.logprobs, shared.distance(other)) for name, other in others.items()}
    computed = shared.forward_tokens / others["rows alone"].forward_tokens
    checks.append(check_sharing(shared.logprobs, compared, few, floor, computed=computed))
    say("comparing temperatures")
    checks.append(check_temperature({t: _draws(bench, drawn, t) for t, drawn in draws.items()}, floor))
    return floor, drift, checks


def _few(rows: Rows) -> Rows:
    """Rows for the plain passes, as many as there is time for: siblings of two prompts, the least certain first.

    The first two are siblings, so that something is shared.
    """
    groups = [sorted(rows[begin : begin + _SIBLINGS], key=_certainty) for begin in range(0, len(rows), _SIBLINGS)]
    first, *rest = sorted(groups, key=lambda siblings: _certainty(siblings[0]) + _certainty(siblings[1]))
    others = [
        row for pair in itertools.zip_longest(rest[0] if rest else (), first[2:]) for row in pair if row is not None
    ]
    chosen = first[:2]
    for row in others:
        if len(chosen) < _PLAIN_ROWS and sum(len(r.token_ids) for r in [*chosen, row]) <= _PLAIN_TOKENS:
            chosen.append(row)
    return chosen


def _certainty(row: TrainingSample) -> float:
    """The logprob of the whole completion when it was drawn."""
    return float(row.logprobs.sum())


def _draws(bench: Bench, rows: Rows, temperature: float) -> TemperatureDraws:
    """The trainer's logprobs of rows drawn at one temperature, at three temperatures, in one pass."""
    (wrong,) = (t for t in _TEMPERATURES if t != temperature)
    wanted = (temperature, _COLDER, wrong)
    all_rows = [dataclasses.replace(row, temperature=t) for t in wanted for row in rows]
    found = bench.trainer.logprobs(all_rows)
    at = [_flat(found[begin : begin + len(rows)], rows) for begin in range(0, len(found), len(rows))]
    return TemperatureDraws(
        sampler=_flat([row.logprobs for row in rows], rows),
        trainer=at[0],
        colder=at[1],
        wrong=at[2],
        wrong_temperature=wrong,
    )


def _flat(values: Sequence[NDArray[np.float32]], rows: Rows) -> NDArray[np.float64]:
    return np.concatenate([of[row.mask].astype(np.float64) for of, row in zip(values, rows, strict=True)])


async def _rerender(subject: Subject, bench: Bench) -> Check:
    turns, left_out = later_turns(subject.trajectories, bench.renderer)
    source = "the run's last step"
    if not turns:
        turns, left_out = later_turns(await _exchanges(subject, bench), bench.renderer)
        source = "exchanges sampled here"
    return await asyncio.to_thread(check_rerendering, turns, left_out, bench.trainer.logprobs, source=source)


async def _exchanges(subject: Subject, bench: Bench) -> list[Trajectory]:
    """Two turns about each of our own questions."""
    policy = bench.policy(max_tokens=_TOKENS, temperature=subject.config.rollout.temperature)
    scenarios = [Scenario(f"doctor-{number}", list(pair)) for number, pair in enumerate(_QUESTIONS)]
    groups = await gather(_ask_twice, scenarios, policy, group_size=_SIBLINGS, seed=subject.config.seed)
    return [trajectory for group in groups for trajectory in group]


async def _ask_twice(scenario: Scenario, session: Session) -> None:
    messages: list[Message] = []
    for text in scenario.input:
        messages.append(Message(role="user", content=text))
        messages.append((await session.turn(messages)).reply)
