"""The conformance table of the documentation names tests that there are."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[2] / "docs" / "langgraph.md"
ROW = re.compile(r"^\| (?P<row>.+) \| (?P<checked>.+) \| (?P<tests>`test_\w+::.+`) \|$", re.MULTILINE)


def table():
    return [(m["row"], re.findall(r"`(\w+)::(\w+)`", m["tests"])) for m in ROW.finditer(PAGE.read_text())]


def names_in(module):
    tree = ast.parse((HERE / f"{module}.py").read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_row_names_tests_that_exist():
    named = [(module, name) for _, tests in table() for module, name in tests]
    assert [pair for pair in named if pair[1] not in names_in(pair[0])] == []
    assert len(named) == len(set(named))


def test_every_row_of_the_table_is_read():
    section = PAGE.read_text().partition("## Conformance")[2].partition("\n## ")[0]
    assert len(table()) == section.count("\n| ") - 1
    assert len(table()) >= 30
