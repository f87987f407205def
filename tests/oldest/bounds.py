"""The lowest versions that ``pyproject.toml`` allows."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence

from packaging.requirements import Requirement

__all__ = ["lowest"]


def lowest(pyproject: str, *, extras: Sequence[str]) -> list[str]:
    """A line ``name==version`` for every requirement of the project and of ``extras``, as constraints of pip.

    Raises:
        ValueError: a requirement has no lower bound.
    """
    project = tomllib.loads(pyproject)["project"]
    lines = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    return [f"{Requirement(line).name}=={_bound(Requirement(line))}" for line in lines]


def _bound(requirement: Requirement) -> str:
    bounds = [specifier.version for specifier in requirement.specifier if specifier.operator in (">=", "==")]
    if len(bounds) != 1:
        raise ValueError(f"{str(requirement)!r} has no lower bound")
    return bounds[0]
