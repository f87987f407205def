"""Splits scenarios into training, validation and test so that nothing asked in one is asked in another.

Two scenarios belong together when they share the request text (case and spaces aside), the expected value (as
canonical JSON), or a key in ``metadata["content"]``; what belongs together never straddles two splits. The generator
writes such a key for the values a model has to work out: for a time conversion the pair of zones, whichever way
round. Single values are not kept apart: a city asked for in the test may occur in training in another combination,
unless the tool has that one argument only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from art_core.errors import InputError
from art_core.messages import canonical_json
from art_core.randomness import fold, rng
from art_core.scenario import Scenario, check_ids

__all__ = ["Split", "balanced", "content_keys", "split", "worked_examples"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Three lists that share no content."""

    train: tuple[Scenario, ...]
    validation: tuple[Scenario, ...]
    test: tuple[Scenario, ...]
    unused: tuple[Scenario, ...] = ()
    """Further wordings of what validation or test asks: neither trained nor tested."""


def content_keys(scenario: Scenario) -> list[str]:
    """What must not occur in two splits: the text, the expected value and the declared content of a scenario."""
    text = scenario.input if isinstance(scenario.input, str) else canonical_json(scenario.input)
    keys = [f"text {' '.join(text.casefold().split())}"]
    if scenario.expected is not None:
        keys.append(f"expected {canonical_json(scenario.expected)}")
    declared = scenario.metadata.get("content") or ()
    return keys + [f"content {key}" for key in ([declared] if isinstance(declared, str) else declared)]


def split(scenarios: Sequence[Scenario], *, validation: int = 24, test: int = 60, seed: int = 0) -> Split:
    """Split by content.

    Validation and test get exactly the sizes asked for, each scenario of them with content of its own, drawn from the
    tools (or, where scenarios name none, the difficulties) in proportion to how often they are asked for; at least half of each tool's content stays in training
    as long as the sizes allow it. The result depends on the scenarios and the seed, not on their order (training keeps it).

    Raises:
        InputError: a size is negative, an id occurs twice, or too few scenarios have content of their own.
    """
    if validation < 0 or test < 0:
        raise InputError(f"validation and test sizes must not be negative, got {validation!r} and {test!r}")
    check_ids(scenarios)
    groups = _groups(scenarios)
    if len(groups) < validation + test + 1:
        raise InputError(
            f"{len(scenarios)} scenarios hold {len(groups)} different contents; {validation} for validation, {test} for "
            f"test and at least 1 for training need {validation + test + 1}"
        )
    strata: dict[str, list[list[Scenario]]] = defaultdict(list)
    for group in groups:
        strata[_stratum(group[0])].append(group)
    sizes = {name: sum(map(len, members)) for name, members in strata.items()}
    held = {name: len(members) // 2 for name, members in strata.items()}
    if sum(held.values()) < validation + test:
        held = {name: len(members) for name, members in strata.items()}
    drawn: dict[str, list[Scenario]] = {}
    taken: dict[str, int] = dict.fromkeys(strata, 0)
    outside_quotas = _quotas(validation + test, sizes, held)
    test_quotas = _quotas(test, outside_quotas, outside_quotas)
    rest_quotas = {name: outside_quotas[name] - test_quotas[name] for name in strata}
    for part, quotas in (("test", test_quotas), ("validation", rest_quotas)):
        chosen: list[Scenario] = []
        for name in sorted(strata):
            ordered = _shuffled(strata[name], seed)
            chosen += [min(group, key=lambda s: s.id) for group in ordered[taken[name] : taken[name] + quotas[name]]]
            taken[name] += quotas[name]
        rng("split", seed, part).shuffle(chosen)
        drawn[part] = chosen
    outside = {scenario.id for chosen in drawn.values() for scenario in chosen}
    tied = {scenario.id for group in groups if any(s.id in outside for s in group) for scenario in group} - outside
    return Split(
        train=tuple(scenario for scenario in scenarios if scenario.id not in outside | tied),
        validation=tuple(drawn["validation"]),
        test=tuple(drawn["test"]),
        unused=tuple(scenario for scenario in scenarios if scenario.id in tied),
    )


def worked_examples(train: Sequence[Scenario], count: int, *, seed: int = 0) -> list[Scenario]:
    """Training scenarios to show solved in the prompt: one of each tool before a second of any.

    Of one tool each, those with more arguments come first: a small model leans on what it read last, and drops
    arguments it has just seen more easily than it invents them.

    Raises:
        InputError: fewer than ``count`` training scenarios say which calls answer them.
    """
    solved = [
        scenario for scenario in train if isinstance(scenario.expected, Mapping) and scenario.expected.get("calls")
    ]
    if not 0 <= count <= len(solved):
        raise InputError(
            f"{count!r} worked examples were asked for; {len(solved)} training scenarios have expected calls"
        )
    queues: dict[str, list[Scenario]] = defaultdict(list)
    for scenario in sorted(solved, key=lambda s: fold("example", seed, s.id)):
        queues[_stratum(scenario)].append(scenario)
    ranked = [
        (rank, fold("tool", seed, name), scenario)
        for name, queue in queues.items()
        for rank, scenario in enumerate(queue)
    ]
    chosen = sorted(ranked, key=lambda item: item[:2])[:count]
    return [scenario for _, _, scenario in sorted(chosen, key=lambda item: (item[0], -_size(item[2])))]


def _size(scenario: Scenario) -> int:
    """Arguments of all expected calls."""
    return sum(len(call.get("arguments") or ()) for call in scenario.expected["calls"])


def balanced(scenarios: Sequence[Scenario], *, keep: int = 32) -> tuple[Scenario, ...]:
    """The scenarios without those beyond one and a half times as many as the least asked tool has; ``keep`` of each
    tool stay in any case.

    A model that is asked for one tool most of the time soon calls it always, and then never learns the others.
    """
    counts: dict[str, int] = defaultdict(int)
    for scenario in scenarios:
        counts[_stratum(scenario)] += 1
    most = max(min(counts.values(), default=0) * 3 // 2, keep)
    taken: dict[str, int] = defaultdict(int)
    chosen = []
    for scenario in scenarios:
        taken[_stratum(scenario)] += 1
        if taken[_stratum(scenario)] <= most:
            chosen.append(scenario)
    return tuple(chosen)


def _groups(scenarios: Sequence[Scenario]) -> list[list[Scenario]]:
    """The connected components of scenarios under shared content."""
    parent = list(range(len(scenarios)))

    def find(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    first: dict[str, int] = {}
    for index, scenario in enumerate(scenarios):
        for key in content_keys(scenario):
            parent[find(index)] = find(first.setdefault(key, index))
    groups: dict[int, list[Scenario]] = defaultdict(list)
    for index, scenario in enumerate(scenarios):
        groups[find(index)].append(scenario)
    return [sorted(group, key=lambda s: s.id) for group in groups.values()]


def _stratum(scenario: Scenario) -> str:
    """The names of the tools a scenario asks for; where it does not say, its difficulty."""
    expected = scenario.expected
    calls = expected.get("calls") if isinstance(expected, Mapping) else None
    if not isinstance(calls, Sequence):
        return str(scenario.metadata.get("difficulty", ""))
    return " ".join(sorted(str(call.get("name")) for call in calls if isinstance(call, Mapping)))


def _shuffled(groups: list[list[Scenario]], seed: int) -> list[list[Scenario]]:
    return sorted(groups, key=lambda group: fold("split", seed, group[0].id))


def _quotas(total: int, sizes: Mapping[str, int], room: Mapping[str, int]) -> dict[str, int]:
    """``total`` divided in proportion to ``sizes``, none above its room; what room refuses goes to those that have it."""
    names = sorted(sizes)
    whole = max(1, sum(sizes.values()))
    quotas = {name: min(total * sizes[name] // whole, room[name]) for name in names}
    while sum(quotas.values()) < total:
        open_names = [name for name in names if quotas[name] < room[name]]
        neediest = max(open_names, key=lambda name: (total * sizes[name] / whole - quotas[name], name))
        quotas[neediest] += 1
    return quotas
