from hypothesis import given
from hypothesis import strategies as st

from art_integrations.mcp.schemas import MAX_NODES, tool_parameters

POINT = {"type": "object", "properties": {"x": {"type": "number"}}}


def test_an_empty_schema_becomes_an_object_without_properties():
    assert tool_parameters({}) == {"type": "object", "properties": {}}
    assert tool_parameters(None) == {"type": "object", "properties": {}}


def test_the_dialect_is_stripped_and_everything_else_kept():
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"a": {"type": "string", "pattern": "^x", "format": "date", "default": "x"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert tool_parameters(schema) == {key: value for key, value in schema.items() if key != "$schema"}


def test_references_are_inlined_and_definitions_dropped():
    schema = {"$defs": {"P": POINT}, "properties": {"at": {"$ref": "#/$defs/P"}}}
    assert tool_parameters(schema) == {"type": "object", "properties": {"at": POINT}}


def test_what_stands_beside_a_reference_wins():
    schema = {"$defs": {"P": POINT}, "properties": {"at": {"$ref": "#/$defs/P", "description": "here"}}}
    assert tool_parameters(schema)["properties"]["at"] == {**POINT, "description": "here"}


def test_references_inside_anyof_items_and_references_are_inlined():
    schema = {
        "definitions": {"P": POINT, "Q": {"type": "array", "items": {"$ref": "#/definitions/P"}}},
        "properties": {"at": {"anyOf": [{"type": "null"}, {"$ref": "#/definitions/Q"}]}},
    }
    expected = {"anyOf": [{"type": "null"}, {"type": "array", "items": POINT}]}
    assert tool_parameters(schema)["properties"]["at"] == expected


def test_escaped_pointers_are_followed():
    schema = {"$defs": {"a/b": POINT}, "properties": {"at": {"$ref": "#/$defs/a~1b"}}}
    assert tool_parameters(schema)["properties"]["at"] == POINT


def test_a_recursive_reference_keeps_its_definition():
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    schema = {"$defs": {"Node": node}, "properties": {"head": {"$ref": "#/$defs/Node"}}}
    assert tool_parameters(schema) == {"type": "object", "$defs": {"Node": node}, "properties": {"head": node}}


def test_a_reference_to_the_root_ends():
    schema = {"type": "object", "properties": {"inner": {"$ref": "#"}}}
    assert tool_parameters(schema) == schema


def test_two_definitions_that_refer_to_each_other_end():
    schema = {
        "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}},
        "properties": {"x": {"$ref": "#/$defs/A"}},
    }
    assert tool_parameters(schema)["$defs"] == schema["$defs"]


def test_references_that_double_at_every_level_stay_references():
    levels = {f"L{n}": {"anyOf": [{"$ref": f"#/$defs/L{n + 1}"}] * 2} for n in range(40)}
    schema = {"$defs": {**levels, "L40": POINT}, "properties": {"x": {"$ref": "#/$defs/L0"}}}
    assert len(str(tool_parameters(schema))) < MAX_NODES * 10
    assert tool_parameters(schema)["properties"] == schema["properties"]


def test_a_property_named_like_a_keyword_is_a_property():
    schema = {"type": "object", "properties": {"$schema": {"type": "string"}, "$ref": {"type": "string"}}}
    assert tool_parameters(schema) == schema


def test_data_inside_a_schema_is_not_touched():
    schema = {"type": "object", "properties": {"a": {"default": {"$ref": "#/$defs/P", "$schema": 1}}}}
    assert tool_parameters(schema) == schema


def test_a_reference_to_another_document_stays():
    schema = {"type": "object", "properties": {"a": {"$ref": "https://example.com/s.json"}}}
    assert tool_parameters(schema) == schema


@given(
    st.recursive(
        st.none() | st.booleans() | st.text(max_size=3) | st.just("#/$defs/a") | st.just("#"),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["$ref", "$defs", "a", "properties", "anyOf", "items"]), inner, max_size=3
            )
        ),
    )
)
def test_whatever_a_server_sends_becomes_an_object_schema(schema):
    parameters = tool_parameters(schema)
    assert isinstance(parameters["properties"], dict)
    assert "type" in parameters
