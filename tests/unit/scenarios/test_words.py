import pytest

from art_core.messages import ToolSpec
from art_core.scenarios.words import imperative, join, literal_phrase, split_name


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sourceTimezone", ["source", "timezone"]),
        ("read-text_file", ["read", "text", "file"]),
        ("parseHTMLPage", ["parse", "html", "page"]),
        ("a.b/c d", ["a", "b", "c", "d"]),
    ],
)
def test_names_become_words(name: str, words: list[str]) -> None:
    assert split_name(name) == words


@pytest.mark.parametrize(
    ("name", "description", "order"),
    [
        ("get-sum", "Returns the sum of two numbers. Both count.", "Return the sum of two numbers"),
        ("git_reset", "Unstages all staged changes", "Unstage all staged changes"),
        ("calculate", "Calculates/evaluates the given expression.", "Calculate the given expression"),
        ("copy_it", "Copies a file\n\nArgs: ...", "Copy a file"),
        ("list_tables", "", "List tables"),
        ("sequentialthinking", "A detailed tool for thinking.", "Use the sequentialthinking tool"),
        ("weather", "This tool tells the weather", "Use the weather tool"),
    ],
)
def test_a_tool_becomes_an_order(name: str, description: str, order: str) -> None:
    assert imperative(ToolSpec(name=name, description=description)) == order


def test_text_is_quoted_with_what_it_does_not_hold() -> None:
    assert [literal_phrase(v) for v in ("a", 'a"b', "a\"b'c", 1.5, True)] == [
        '"a"',
        "'a\"b'",
        "`a\"b'c`",
        "1.5",
        "true",
    ]


def test_lists_are_joined_in_words() -> None:
    assert [join(["a"]), join(["a", "b"]), join(["a", "b", "c"])] == ["a", "a and b", "a, b and c"]
