"""Which scenarios are trained on, which are watched, and which are kept for the figures before and after.

The three never overlap: a scenario that occurs in two of them, under the same id or with the same content, is refused. The split is a function of (scenarios, seed).
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from art_core.disk import write_whole
from art_core.errors import InputError
from art_core.messages import canonical_json
from art_core.randomness import rng
from art_core.scenario import Scenario, ScenarioSource, check_ids, load_scenarios

__all__ = ["SPLITS", "Schedule", "Splits", "epoch_order", "make_splits"]

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, slots=True, kw_only=True)
class Splits:
    """Scenarios by their use."""

    train: tuple[Scenario, ...]
    validation: tuple[Scenario, ...] = ()
    test: tuple[Scenario, ...] = ()

    def write(self, directory: Path) -> None:
        """One JSONL file per split, each whole or not at all."""
        for name in SPLITS:
            lines = (json.dumps(scenario.to_record(), ensure_ascii=False) + "\n" for scenario in getattr(self, name))
            write_whole(directory / f"{name}.jsonl", lines)

    @classmethod
    def read(cls, directory: Path) -> Splits:
        """What ``write`` wrote.

        Raises:
            InputError: a file is missing or damaged.
        """
        found = {}
        for name in SPLITS:
            path = directory / f"{name}.jsonl"
            empty = path.is_file() and not path.stat().st_size
            found[name] = () if empty else tuple(load_scenarios(path))
        return cls(**found)


class Schedule:
    """The scenarios of each step, in seeded epochs: each one comes once per epoch, and never twice in one step.

    Where a step takes the end of one epoch and the beginning of the next, those already in it wait their turn. The
    scenarios of a step are a function of (scenarios, size, seed, step).
    """

    def __init__(self, scenarios: Sequence[Scenario], size: int, *, seed: int) -> None:
        """
        Raises:
            InputError: fewer scenarios than a step needs.
        """
        if len(scenarios) < size:
            raise InputError(
                f"{len(scenarios)} training scenarios are too few for {size} per step; "
                "give more, or set rollout.scenarios_per_step lower"
            )
        self._scenarios, self._size, self._seed = list(scenarios), size, seed
        self._stream: list[int] = []
        self._epochs = 0

    def batch(self, step: int) -> list[Scenario]:
        """The scenarios of step ``step``, counted from 1."""
        end = step * self._size
        while len(self._stream) < end:
            self._add_epoch()
        return [self._scenarios[index] for index in self._stream[end - self._size : end]]

    def _add_epoch(self) -> None:
        order = epoch_order(self._scenarios, seed=self._seed, epoch=self._epochs)
        begun = len(self._stream) % self._size
        taken = set(self._stream[len(self._stream) - begun :]) if begun else set()
        first = [index for index in order if index not in taken][: self._size - begun] if taken else []
        chosen = set(first)
        self._stream += first + [index for index in order if index not in chosen]
        self._epochs += 1


def epoch_order(scenarios: Sequence[Scenario], *, seed: int, epoch: int) -> list[int]:
    """The indices of all scenarios in the order of one epoch, counted from 0."""
    return _interleaved(scenarios, rng("scenarios", seed, epoch))


def _interleaved(scenarios: Sequence[Scenario], draw: random.Random) -> list[int]:
    """Indices in random order, those of each kind (``metadata["tool"]``) spread evenly over it.

    A step of a few scenarios then sees the kinds in the proportion they have, not by the luck of the draw.
    """
    kinds: dict[str, list[int]] = {}
    for index, scenario in enumerate(scenarios):
        kinds.setdefault(str(scenario.metadata.get("tool", "")), []).append(index)
    places: list[tuple[float, int]] = []
    for _, members in sorted(kinds.items()):
        draw.shuffle(members)
        begin = draw.random()
        places += [((rank + begin) / len(members), index) for rank, index in enumerate(members)]
    return [index for _, index in sorted(places)]


def make_splits(
    scenarios: Sequence[Scenario],
    *,
    validation: Sequence[Scenario] | int,
    test: Sequence[Scenario] | int,
    seed: int,
) -> Splits:
    """Use the lists given, and hold out the numbers given, from ``scenarios``.

    Of ``scenarios`` at most a fifth becomes validation and at most a third test, so that training keeps the larger
    half.

    Raises:
        InputError: too few scenarios, an id twice, one that JSON cannot hold, or one that is in two splits.
    """
    order = list(scenarios)
    ScenarioSource(order)
    rng("split", seed).shuffle(order)
    held: dict[str, tuple[Scenario, ...]] = {}
    for name, wanted, share in (("test", test, 3), ("validation", validation, 5)):
        if isinstance(wanted, int):
            count = min(wanted, len(scenarios) // share)
            if wanted and not count:
                raise InputError(
                    f"{len(scenarios)} scenarios are too few to hold out {wanted} for {name}; give at least {share}, "
                    f"or {name} scenarios of their own, or set evaluation.{name} to 0"
                )
            held[name], order = tuple(order[:count]), order[count:]
        else:
            held[name] = tuple(wanted)
    left = {scenario.id for scenario in order}
    splits = Splits(train=tuple(scenario for scenario in scenarios if scenario.id in left), **held)
    _check_apart(splits)
    return splits


def _check_apart(splits: Splits) -> None:
    seen: dict[str, str] = {}
    for name in SPLITS:
        part = getattr(splits, name)
        check_ids(part)
        for scenario in part:
            try:
                content = canonical_json([scenario.input, scenario.expected, scenario.metadata])
                content.encode("utf-8")
            except (TypeError, UnicodeEncodeError) as error:
                raise InputError(f"scenario {scenario.id!r} cannot be stored as JSON: {error}") from error
            for key in (f"id {scenario.id}", f"content {content}"):
                if seen.setdefault(key, name) != name:
                    raise InputError(
                        f"scenario {scenario.id!r} is in the {seen[key]} and in the {name} scenarios; "
                        "what is trained on cannot be used to measure"
                    )
