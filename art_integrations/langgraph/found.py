"""The tools that can be found in a compiled graph without running it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolNode
from langgraph.pregel import Pregel

__all__ = ["tools_in"]


def tools_in(graph: Pregel[Any, Any, Any, Any]) -> dict[str, BaseTool]:
    """The tools by name: those of its tool nodes, those that its nodes' functions refer to by name, and those of nested graphs.

    What a tool calls in turn, such as a sub-agent with tools of its own, cannot be seen.
    """
    found: dict[str, BaseTool] = {}
    _walk(graph, found, set())
    return dict(sorted(found.items()))


def _walk(graph: Any, found: dict[str, BaseTool], seen: set[int]) -> None:
    if id(graph) in seen:
        return
    seen.add(id(graph))
    for node in graph.nodes.values():
        for value in _values(getattr(node, "bound", None)):
            if isinstance(value, Pregel):
                _walk(value, found, seen)
            for tool in _tools(value):
                found.setdefault(tool.name, tool)
        for nested in getattr(node, "subgraphs", ()):
            if isinstance(nested, Pregel):
                _walk(nested, found, seen)


def _values(runnable: Any) -> Iterator[Any]:
    """A node's runnable, the parts of a sequence, and what its functions refer to."""
    for part in [runnable, *getattr(runnable, "steps", ())]:
        yield part
        for function in (getattr(part, "func", None), getattr(part, "afunc", None)):
            yield from _referred(inspect.unwrap(function)) if callable(function) else ()


def _referred(function: Any) -> list[Any]:
    try:
        names = inspect.getclosurevars(function)
    except (TypeError, ValueError):  # no Python function, or a variable that is not set yet
        return []
    return [*names.nonlocals.values(), *names.globals.values()]


def _tools(value: Any) -> Iterator[BaseTool]:
    if isinstance(value, BaseTool):
        yield value
    elif isinstance(value, ToolNode):
        yield from value.tools_by_name.values()
    elif isinstance(value, Mapping | list | tuple):
        items = value.values() if isinstance(value, Mapping) else value
        yield from (item for item in items if isinstance(item, BaseTool))
