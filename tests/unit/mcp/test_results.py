from art_integrations.mcp.results import ToolResult, cut, from_call, from_resource


def block(text):
    return {"type": "text", "text": text}


def test_text_blocks_are_joined():
    assert from_call({"content": [block("a"), block("b")]}, limit=100) == ToolResult(text="a\nb")


def test_an_error_is_marked_and_keeps_its_structured_value():
    wire = {"content": [block("no")], "isError": True, "structuredContent": {"why": 1}}
    assert from_call(wire, limit=100) == ToolResult(text="no", error="tool_error", structured={"why": 1})


def test_structured_content_is_the_text_where_there_is_none():
    assert from_call({"content": [], "structuredContent": {"v": "ü"}}, limit=100).text == '{"v": "ü"}'


def test_structured_content_is_kept_beside_the_text():
    result = from_call({"content": [block("42")], "structuredContent": {"v": 42}}, limit=100)
    assert (result.text, result.structured) == ("42", {"v": 42})


def test_nothing_at_all_is_said():
    assert from_call({"content": []}, limit=100).text == "(no output)"
    assert from_call({"isError": True}, limit=100).text == "Error: the tool failed without a message"


def test_binary_blocks_become_placeholders():
    image = {"type": "image", "data": "AAAAAAAA", "mimeType": "image/png"}
    assert from_call({"content": [image]}, limit=100).text == "[image: image/png, about 6 bytes, not shown]"


def test_links_and_embedded_resources_are_shown():
    link = {"type": "resource_link", "uri": "n:///1", "name": "one"}
    inside = {"type": "resource", "resource": {"uri": "n:///2", "text": "inside"}}
    assert from_call({"content": [link, inside]}, limit=100).text == "[link to one: n:///1]\ninside"


def test_a_long_text_is_cut_with_a_marker():
    assert cut("x" * 12, 10) == "x" * 10 + "\n[... 2 more characters left out]"
    assert cut("x" * 10, 10) == "x" * 10


def test_the_structured_value_is_not_cut():
    wire = {"content": [block("x" * 50)], "structuredContent": {"v": "x" * 50}}
    assert from_call(wire, limit=5).structured == {"v": "x" * 50}


def test_resources_are_text_or_placeholders():
    wire = {"contents": [{"uri": "n:///1", "text": "t"}, {"uri": "n:///2", "blob": "AAAA", "mimeType": "image/png"}]}
    assert from_resource(wire, limit=100).text == "t\n[resource n:///2: image/png, about 3 bytes, not shown]"


def test_a_failure_names_its_kind():
    assert ToolResult.failed("unknown_tool", "no such").text == "Error (unknown tool): no such"
