import zoneinfo
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema.validators import Draft202012Validator

from art_core.errors import InputError
from art_core.messages import ToolSpec, canonical_json
from art_core.scenarios.generate import generate, parse_hints
from art_core.scenarios.places import ZONE_OF_CITY, ZONES

from .time_tools import CONVERT, NOW, TIME_TOOLS


def tool(name: str = "save_note", description: str = "Save a note", **properties: Any) -> ToolSpec:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return ToolSpec(name=name, description=description, parameters=schema)


SAID = {zone: city for city, zone in ZONE_OF_CITY.items()}


def arguments(spec: ToolSpec, count: int = 8, **more: Any) -> list[dict[str, Any]]:
    return [s.expected["calls"][0]["arguments"] for s in generate([spec], count, **more).scenarios]


def test_every_zone_exists() -> None:
    assert {*ZONES, *ZONE_OF_CITY.values()} <= zoneinfo.available_timezones()
    assert 40 <= len(ZONE_OF_CITY) <= 80
    assert len(set(ZONES)) == len(ZONES) > 200


def test_a_zone_is_asked_for_by_its_city_or_by_its_name_about_as_often() -> None:
    by_name = 0
    for scenario in generate([NOW], 40, seed=3).scenarios:
        zone = scenario.expected["calls"][0]["arguments"]["timezone"]
        by_name += zone in scenario.input
        assert zone in scenario.input or SAID[zone] in scenario.input
    assert 14 <= by_name <= 26


def test_a_conversion_says_both_places_and_the_time() -> None:
    for scenario in generate([CONVERT], 50, seed=3).scenarios:
        call = scenario.expected["calls"][0]["arguments"]
        assert call["source_timezone"] != call["target_timezone"]
        assert call["time"] in scenario.input
        for zone in (call["source_timezone"], call["target_timezone"]):
            assert zone in scenario.input or SAID[zone] in scenario.input


def test_equal_input_gives_equal_scenarios() -> None:
    assert generate(TIME_TOOLS, 40, seed=5) == generate(TIME_TOOLS, 40, seed=5)


def test_another_seed_gives_other_scenarios() -> None:
    assert generate(TIME_TOOLS, 40, seed=5).scenarios != generate(TIME_TOOLS, 40, seed=6).scenarios


def test_more_scenarios_begin_with_the_same_ones() -> None:
    assert generate(TIME_TOOLS, 200, seed=5).scenarios[:40] == generate(TIME_TOOLS, 40, seed=5).scenarios


def test_scenarios_of_a_tool_do_not_depend_on_the_other_tools() -> None:
    both = [s for s in generate(TIME_TOOLS, 20, seed=5).scenarios if s.metadata["tool"] == "convert_time"]
    assert both == list(generate([CONVERT], 10, seed=5).scenarios)


def test_texts_and_ids_are_unique() -> None:
    scenarios = generate(TIME_TOOLS, 400, seed=1).scenarios
    assert len(scenarios) == 400
    assert len({s.input for s in scenarios}) == len({s.id for s in scenarios}) == 400


def test_a_tool_without_parameters_is_asked_for_in_three_ways_at_most() -> None:
    made = generate([tool("list_tables", "List all tables")], 10)
    assert len(made.scenarios) == 3
    assert made.shortfall is not None
    assert made.shortfall.startswith("3 of 10 scenarios were made")


def test_formats_enums_and_bounds_are_kept() -> None:
    spec = tool(
        day={"type": "string", "format": "date"},
        mail={"type": "string", "format": "email"},
        link={"type": "string", "format": "uri"},
        key={"type": "string", "format": "uuid"},
        level={"enum": ["low", "high"]},
        count={"type": "integer", "minimum": 3, "exclusiveMaximum": 9, "multipleOf": 2},
        ratio={"type": "number", "minimum": 0, "maximum": 1},
        fixed={"const": "v1"},
        code={"type": "string", "pattern": "^[A-Z]{3}-\\d{2,4}$"},
    )
    checker = Draft202012Validator(dict(spec.parameters), format_checker=Draft202012Validator.FORMAT_CHECKER)
    made = generate([spec], 20)
    assert made.dropped == {}
    assert all(checker.is_valid(s.expected["calls"][0]["arguments"]) for s in made.scenarios)


def test_nested_references_and_alternatives_are_followed() -> None:
    spec = ToolSpec(
        name="add_people",
        description="Adds people to the list",
        parameters={
            "type": "object",
            "properties": {"people": {"type": "array", "items": {"$ref": "#/$defs/Person"}, "minItems": 2}},
            "required": ["people"],
            "$defs": {
                "Person": {
                    "type": "object",
                    "properties": {
                        "name": {"anyOf": [{"type": "null"}, {"type": "string"}]},
                        "age": {"type": "integer"},
                    },
                    "required": ["name", "age"],
                }
            },
        },
    )
    made = generate([spec], 10)
    assert len(made.scenarios) == 10
    for scenario in made.scenarios:
        for person in scenario.expected["calls"][0]["arguments"]["people"]:
            assert f'"{person["name"]}"' in scenario.input
            assert f"age: {person['age']}" in scenario.input


def test_examples_in_the_description_are_used() -> None:
    spec = tool(unit={"type": "string", "description": "The unit (e.g. 'celsius', 'kelvin')"})
    assert {a["unit"] for a in arguments(spec)} == {"celsius", "kelvin"}


def test_optional_parameters_are_given_sometimes_and_never_at_their_default() -> None:
    schema = {"type": "object", "properties": {"limit": {"type": "integer", "default": 5, "minimum": 4, "maximum": 6}}}
    made = arguments(ToolSpec(name="list_items", description="List the items", parameters=schema), 9)
    assert {canonical_json(a) for a in made} == {"{}", '{"limit":4}', '{"limit":6}'}


def test_hints_replace_made_up_values() -> None:
    spec = tool(repo_path={"type": "string"}, message={"type": "string"})
    assert {a["repo_path"] for a in arguments(spec, hints={"repo_path": ["/srv/repo"]})} == {"/srv/repo"}


def test_a_hint_of_one_tool_wins() -> None:
    spec = tool(path={"type": "string"}, text={"type": "string"})
    hints = {"path": ["/a"], "save_note.path": ["/b"]}
    assert {a["path"] for a in arguments(spec, hints=hints)} == {"/b"}


def test_made_up_names_of_server_things_are_reported() -> None:
    assert generate([tool(path={"type": "string"})], 3).unhinted == {"path": ("save_note",)}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (tool(description="Deprecated: use another"), "its description says it is deprecated"),
        (tool(api_key={"type": "string"}), "parameter 'api_key': it is a secret"),
        (tool(value={}), "parameter 'value': its schema does not say what it is"),
        (tool(value={"$ref": "https://elsewhere.example/schema"}), "which it does not contain"),
        (tool(value={"$ref": "#/properties/value"}), "never ends"),
        (tool(value={"type": "object"}), "an object whose members are not described"),
        (tool(value={"type": "string", "pattern": "^(?=a)b$"}), "no text could be made for its pattern"),
        (tool(value={"type": "integer", "minimum": 5, "maximum": 4}), "no number lies between 5 and 4"),
        (tool(value={"type": "string", "not": {"type": "string"}}), "drawn calls fits its input schema"),
        (tool(value={"type": "strange"}), "its input schema is not valid"),
    ],
)
def test_a_tool_that_cannot_be_asked_for_is_reported(spec: ToolSpec, reason: str) -> None:
    made = generate([spec], 3)
    assert made.scenarios == ()
    assert reason in made.skipped["save_note"]


def test_drawn_calls_that_do_not_validate_are_counted() -> None:
    odd = {"type": "integer", "minimum": 1, "maximum": 40, "not": {"multipleOf": 2}}
    made = generate([tool(value=odd)], 10)
    assert made.dropped["save_note"] > 0
    assert all(s.expected["calls"][0]["arguments"]["value"] % 2 for s in made.scenarios)


def test_tools_that_promise_the_same_are_told_apart_by_name() -> None:
    made = generate([tool("read_file", "Read a file"), tool("read_text_file", "Read a file")], 4)
    for scenario in made.scenarios:
        assert scenario.metadata["tool"].replace("_", " ") in scenario.input


def test_unusable_requests_are_refused() -> None:
    for call in (lambda: generate([], 3), lambda: generate(TIME_TOOLS, 0), lambda: generate([NOW, NOW], 3)):
        with pytest.raises(InputError):
            call()
    with pytest.raises(InputError, match="hint 'tz' names no parameter"):
        generate(TIME_TOOLS, 3, hints={"tz": ["UTC"]})


def test_hint_options_are_parsed() -> None:
    assert parse_hints(["path=/a=b", "git_log.count=3", "path=c"]) == {"path": ["/a=b", "c"], "git_log.count": [3]}
    with pytest.raises(InputError, match="'path' is not of the form"):
        parse_hints(["path"])


_LEAF = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "minLength": 12, "maxLength": 14},
        {"type": "integer", "minimum": -3},
        {"type": "number", "maximum": -50},
        {"type": "boolean"},
        {"enum": ["a", 1, True]},
        {"type": ["string", "null"]},
        {"type": "string", "pattern": "^(ab|cd)+[0-9]?x{2}$"},
    ]
)
_SCHEMA = st.recursive(
    _LEAF,
    lambda inner: st.one_of(
        st.builds(lambda item: {"type": "array", "items": item}, inner),
        st.builds(lambda part: {"type": "object", "properties": {"part": part}, "required": ["part"]}, inner),
        st.builds(lambda one, two: {"anyOf": [one, two]}, inner, inner),
    ),
    max_leaves=4,
)


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, list) else [value]


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from(["alpha", "betaName", "query", "size"]), _SCHEMA, min_size=1, max_size=3))
def test_every_call_validates_and_every_value_is_said(properties: dict[str, Any]) -> None:
    spec = tool(**properties)
    made = generate([spec], 5)
    assert made.scenarios
    for scenario in made.scenarios:
        given_ = scenario.expected["calls"][0]["arguments"]
        assert Draft202012Validator(dict(spec.parameters)).is_valid(given_)
        for leaf in leaves(given_):
            assert (leaf if isinstance(leaf, str) else canonical_json(leaf)) in scenario.input
