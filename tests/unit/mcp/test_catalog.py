import pytest

from art_core.errors import InputError
from art_integrations.mcp.catalog import Discovered, build_catalog

READ = {"name": "read", "description": "Read"}
DESTROY = {"name": "destroy", "annotations": {"destructiveHint": True}}
BROWSE = {"name": "browse", "annotations": {"openWorldHint": True, "readOnlyHint": True}}


def found(*tools, **more):
    return [Discovered(server="s", tools=tools, **more)]


def offered(catalog):
    return [tool.name for tool in catalog.offered]


def test_destructive_and_open_world_tools_are_withheld_with_a_reason():
    catalog = build_catalog(found(READ, DESTROY, BROWSE))
    assert offered(catalog) == ["read"]
    assert [(tool.name, "allow_destructive" in tool.withheld) for tool in catalog.withheld] == [
        ("destroy", True),
        ("browse", True),
    ]


def test_they_are_offered_where_allowed():
    assert offered(build_catalog(found(READ, DESTROY, BROWSE), allow_destructive=True)) == ["read", "destroy", "browse"]


def test_a_read_only_tool_is_not_destructive():
    both = {"name": "x", "annotations": {"destructiveHint": True, "readOnlyHint": True}}
    assert offered(build_catalog(found(both))) == ["x"]


def test_a_hint_that_is_not_given_counts_as_no():
    assert offered(build_catalog(found({"name": "x", "annotations": {"readOnlyHint": False}}))) == ["x"]


def test_choosing_a_destructive_tool_does_not_allow_it():
    with pytest.raises(InputError, match="no tool is left to offer"):
        build_catalog(found(DESTROY), tools=["destroy"])


def test_tools_are_chosen_and_excluded_by_either_name():
    tools = found({"name": "a.b"}, {"name": "c"}, {"name": "d"})
    assert offered(build_catalog(tools, tools=["a.b", "d"], exclude_tools=["d"])) == ["a_b"]
    assert offered(build_catalog(tools, tools=["a_b"])) == ["a_b"]


def test_an_unknown_name_lists_the_valid_ones():
    with pytest.raises(InputError, match="tool 'rad' is not offered by any server; valid names: destroy, read"):
        build_catalog(found(READ, DESTROY), exclude_tools=["rad"])


def test_resources_are_read_through_a_tool_with_their_uris():
    resources = [{"uri": "n:///1", "name": "one", "description": "First"}]
    tool = build_catalog(found(READ, resources=resources)).find("read_resource")
    assert tool.reads_resources
    assert tool.spec.parameters["properties"]["uri"]["enum"] == ["n:///1"]
    assert "- n:///1: First" in tool.spec.description


def test_templates_leave_the_uri_open():
    tool = build_catalog(found(READ, templates=[{"uriTemplate": "n:///{day}", "name": "day"}])).find("read_resource")
    assert "enum" not in tool.spec.parameters["properties"]["uri"]
    assert "n:///{day}: day (fill in the braces)" in tool.spec.description


def test_the_resource_reader_gives_way_to_a_tool_of_that_name():
    catalog = build_catalog(found({"name": "read_resource"}, resources=[{"uri": "n:///1"}]))
    assert [(tool.name, tool.reads_resources) for tool in catalog.tools] == [
        ("read_resource", False),
        ("read_resource_", True),
    ]


def test_a_tool_listed_twice_is_offered_once():
    assert offered(build_catalog(found(READ, READ))) == ["read"]


def test_the_listing_reads_well():
    text = str(build_catalog(found({"name": "a.b"}, DESTROY)))
    assert text.splitlines() == [
        "1 tool will really be called by the model, many times:",
        '  a_b of s (there "a.b")',
        "1 withheld:",
        "  destroy of s: its server says that it is destructive; allow_destructive offers it",
    ]
