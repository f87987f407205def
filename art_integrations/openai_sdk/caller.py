"""Who calls a model: what a request of the SDK says, and what the program's frameworks tell about the code that runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["describe_caller", "told_by"]

_frameworks: list[Callable[[], Mapping[str, Any]]] = []


def told_by(framework: Callable[[], Mapping[str, Any]]) -> Callable[[], None]:
    """Have ``framework`` describe the code that makes a call (its node or agent, say; nothing where none of its code runs); returns
    what ends that."""
    _frameworks.append(framework)
    return lambda: _frameworks.remove(framework)


def describe_caller(client: Any, body: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values: ``model`` that was asked for, ``provider`` (the client's class), and what frameworks tell."""
    about = {"model": str(body.get("model")), "provider": type(client).__name__}
    for framework in _frameworks:
        about |= framework()
    return about
