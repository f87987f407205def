"""The lower bounds of the project's requirements."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .bounds import lowest

ROOT = Path(__file__).parents[2]

PROJECT = """
[project]
dependencies = ["anyio>=4.10", "cyclopts>=5,<6"]
[project.optional-dependencies]
langgraph = ["langgraph>=1.2,<2"]
mcp = ["mcp>=1.24"]
"""


def test_every_requirement_has_its_lower_bound():
    assert lowest(PROJECT, extras=["langgraph"]) == ["anyio==4.10", "cyclopts==5", "langgraph==1.2"]


def test_a_requirement_without_one_is_told():
    with pytest.raises(ValueError, match="'anyio' has no lower bound"):
        lowest(PROJECT.replace("anyio>=4.10", "anyio"), extras=[])


def test_the_versions_of_the_documentation_are_those_that_are_tested():
    oldest = lowest((ROOT / "pyproject.toml").read_text(), extras=["langgraph"])
    newest = (ROOT / "constraints.txt").read_text().splitlines()
    rows = re.findall(
        r"^\| `([\w-]+)` \| ([\d.]+) \| ([\d.]+) \|$", (ROOT / "docs" / "langgraph.md").read_text(), re.MULTILINE
    )
    assert [name for name, _, _ in rows] == ["langchain-core", "langchain-openai", "langgraph"]
    assert {f"{name}=={version}" for name, version, _ in rows} <= set(oldest)
    assert {f"{name}=={version}" for name, _, version in rows} <= set(newest)
