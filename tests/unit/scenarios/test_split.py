import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from art_core.errors import InputError
from art_core.scenario import Scenario
from art_core.scenarios.generate import generate
from art_core.scenarios.places import ZONE_OF_CITY
from art_core.scenarios.split import balanced, content_keys, split, worked_examples

from .time_tools import TIME_TOOLS

SCENARIOS = generate(TIME_TOOLS, 400, seed=1).scenarios


def plain(number: int, call: int, content: int) -> Scenario:
    calls = {"calls": [{"name": f"tool{call % 3}", "arguments": {"x": call}}]}
    return Scenario(f"s{number}", f"Ask {number % 30}", calls, {"content": f"c{content}"} if content else {})


def keys(part: tuple[Scenario, ...]) -> set[str]:
    return {key for scenario in part for key in content_keys(scenario)}


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 60)), min_size=1, max_size=60),
    st.integers(0, 4),
    st.integers(0, 6),
    st.integers(0, 3),
)
def test_no_content_is_shared(pairs: list[tuple[int, int]], validation: int, test: int, seed: int) -> None:
    scenarios = [plain(number, *pair) for number, pair in enumerate(pairs)]
    try:
        parts = split(scenarios, validation=validation, test=test, seed=seed)
    except InputError:
        return
    assert not keys(parts.train) & keys(parts.test)
    assert not keys(parts.train) & keys(parts.validation)
    assert not keys(parts.validation) & keys(parts.test)
    everything = [*parts.train, *parts.validation, *parts.test, *parts.unused]
    assert sorted(s.id for s in everything) == sorted(s.id for s in scenarios)


def test_sizes_are_exact() -> None:
    parts = split(SCENARIOS)
    assert (len(parts.validation), len(parts.test)) == (24, 60)


def test_test_scenarios_have_content_of_their_own() -> None:
    parts = split(SCENARIOS)
    assert len({s.input for s in parts.test}) == len({str(s.expected) for s in parts.test}) == 60


def test_the_time_servers_zone_pairs_and_single_zones_are_kept_apart() -> None:
    parts = split(SCENARIOS)

    def zones(part: tuple[Scenario, ...]) -> set[frozenset[str]]:
        arguments = [s.expected["calls"][0]["arguments"] for s in part]
        return {frozenset(value for name, value in given_.items() if name != "time") for given_ in arguments}

    assert not zones(parts.train) & (zones(parts.test) | zones(parts.validation))
    assert not zones(parts.test) & zones(parts.validation)


def test_every_city_of_the_test_occurs_in_training() -> None:
    parts = split(SCENARIOS)

    def cities(part: tuple[Scenario, ...]) -> set[str]:
        return {said for s in part for said in s.metadata["phrases"].values() if said in ZONE_OF_CITY}

    assert cities(parts.test) <= cities(parts.train)


def test_every_tool_is_tested_and_keeps_half_its_content_in_training() -> None:
    parts = split(SCENARIOS)
    assert {s.metadata["tool"] for s in parts.test} == {"get_current_time", "convert_time"}
    now = {str(s.expected) for s in SCENARIOS if s.metadata["tool"] == "get_current_time"}
    trained = {str(s.expected) for s in parts.train} & now
    assert len(trained) >= len(now) // 2


def test_order_does_not_matter_and_the_seed_does() -> None:
    parts, turned = split(SCENARIOS), split(SCENARIOS[::-1])
    assert (parts.test, parts.validation) == (turned.test, turned.validation)
    assert split(SCENARIOS, seed=1).test != parts.test


def test_training_keeps_the_order_given() -> None:
    train = split(SCENARIOS).train
    assert list(train) == [s for s in SCENARIOS if s in train]


def test_too_few_scenarios_are_an_error() -> None:
    with pytest.raises(InputError, match="2 scenarios hold 1 different contents; 1 for validation, 1 for test"):
        split([plain(0, 1, 0), plain(1, 1, 0)], validation=1, test=1)


def test_equal_ids_are_an_error() -> None:
    with pytest.raises(InputError, match="'s0' occurs twice"):
        split([plain(0, 1, 0), plain(0, 2, 0)], validation=0, test=1)


def test_worked_examples_cover_the_tools_first() -> None:
    examples = worked_examples(SCENARIOS, 2, seed=0)
    assert {s.metadata["tool"] for s in examples} == {"get_current_time", "convert_time"}


def test_worked_examples_end_every_round_with_the_smallest_call() -> None:
    examples = worked_examples(SCENARIOS, 4, seed=0)
    tools = [s.metadata["tool"] for s in examples]
    assert tools == ["convert_time", "get_current_time", "convert_time", "get_current_time"]


def test_worked_examples_are_stable_and_from_what_was_given() -> None:
    train = split(SCENARIOS).train
    examples = worked_examples(train, 4, seed=2)
    assert examples == worked_examples(train[::-1], 4, seed=2)
    assert all(example in train for example in examples)


def test_too_many_worked_examples_are_an_error() -> None:
    with pytest.raises(InputError, match="1 training scenarios have expected calls"):
        worked_examples([SCENARIOS[0], Scenario("x", "hi")], 2)


def test_validation_and_test_have_the_same_mix_of_tools() -> None:
    parts = split(SCENARIOS)
    test, validation = (
        sum(s.metadata["tool"] == "get_current_time" for s in part) / len(part)
        for part in (parts.test, parts.validation)
    )
    assert abs(test - validation) < 0.1


def test_balancing_leaves_no_tool_far_more_often_asked_for_than_another() -> None:
    calls = [{"name": name} for name in ["a"] * 9 + ["b"] * 4 + ["c"] * 6]
    scenarios = [Scenario(f"s{i}", f"q{i}", {"calls": [call]}) for i, call in enumerate(calls)]
    names = [s.expected["calls"][0]["name"] for s in balanced(scenarios, keep=2)]
    assert [names.count(name) for name in "abc"] == [6, 4, 6]


def test_balancing_keeps_some_of_each_tool_in_any_case() -> None:
    calls = [{"name": name} for name in ["a"] * 9 + ["b"] * 1]
    scenarios = [Scenario(f"s{i}", f"q{i}", {"calls": [call]}) for i, call in enumerate(calls)]
    assert len(balanced(scenarios, keep=5)) == 6
