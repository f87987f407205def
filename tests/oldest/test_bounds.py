"""The lower bounds of the project's requirements."""

from __future__ import annotations

import pytest

from .bounds import lowest

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
