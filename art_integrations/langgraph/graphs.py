"""The graph of a rollout: one that shares nothing with the others, and its input."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from langgraph.pregel import Pregel

from art_core.errors import InputError

__all__ = ["check_factory", "check_graph", "input_for", "isolated", "made_by"]


def check_graph(graph: Any) -> Pregel[Any, Any, Any, Any]:
    """``graph`` if it is a compiled graph.

    Raises:
        InputError: it is something else; the message says what to do about it.
    """
    if isinstance(graph, Pregel):
        return graph
    if hasattr(graph, "compile"):
        raise InputError(f"{type(graph).__name__} is not compiled; give what its compile() returns")
    raise InputError(f"{graph!r} is a {type(graph).__name__}, not a compiled LangGraph graph")


def isolated(graph: Pregel[Any, Any, Any, Any]) -> Pregel[Any, Any, Any, Any]:
    """A copy without the node cache, with an empty store and an empty checkpointer where the graph has them."""
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.store.memory import InMemoryStore

    changes: dict[str, Any] = {"cache": None}
    if graph.store is not None:
        changes["store"] = InMemoryStore()
    if graph.checkpointer not in (None, False, True):
        changes["checkpointer"] = InMemorySaver()
    copy: Pregel[Any, Any, Any, Any] = graph.copy(update=changes)
    return copy


def input_for(graph: Pregel[Any, Any, Any, Any], value: Any, scenario_id: str) -> Any:
    """The graph's input from a scenario's: a text or a list of messages becomes ``{"messages": ...}``, or the one field that the
    graph takes; anything else stays as it is.

    Raises:
        InputError: the graph's state has no such field, or it is not clear which one a text belongs in.
    """
    fields = _fields(graph)
    if fields is None:
        return value
    if isinstance(value, Mapping):
        unknown = sorted(set(value) - set(fields))
        if unknown:
            raise InputError(
                f"scenario {scenario_id!r} has the field {unknown[0]!r}, which the graph's input does not have; it has "
                f"{', '.join(fields) or 'none'}; give LangGraphAgent(input=) a function that makes the input"
            )
        return dict(value)
    if "messages" in fields:
        return {"messages": [{"role": "user", "content": value}] if isinstance(value, str) else value}
    if len(fields) == 1:
        return {fields[0]: value}
    raise InputError(
        f"scenario {scenario_id!r} is a {type(value).__name__}, and the graph's input has the fields {', '.join(fields)}; write the "
        "scenario's input as an object with these, or give LangGraphAgent(input=) a function that makes it"
    )


def _fields(graph: Pregel[Any, Any, Any, Any]) -> list[str] | None:
    """The fields of the graph's input; None where it is not an object (an entrypoint of the functional API)."""
    builder = getattr(graph, "builder", None)
    fields = None if builder is None else builder.schemas.get(builder.input_schema)
    return list(fields) if fields else None


def check_factory(factory: Any) -> None:
    """
    Raises:
        InputError: it needs more than the config.
    """
    if len(needed := _required(factory)) > 1:
        raise InputError(
            f"{getattr(factory, '__name__', factory)!r} needs {', '.join(needed)}; a function that makes the graph is called "
            "with nothing or with the config"
        )


async def made_by(factory: Any, config: Mapping[str, Any]) -> Any:
    """What a factory of graphs returns; it may take the config, and may be async."""
    graph = factory(config) if _required(factory) else factory()
    return await graph if inspect.isawaitable(graph) else graph


def _required(factory: Any) -> list[str]:
    return [
        p.name
        for p in inspect.signature(factory).parameters.values()
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
