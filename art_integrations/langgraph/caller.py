"""Who calls a model: the node, agent, step, path and attempt of a graph, from what LangGraph tells the running code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables.config import ensure_config

__all__ = ["describe_caller", "describe_running_node"]

_KEYS = {
    "langgraph_node": "node",
    "langgraph_step": "step",
    "langgraph_path": "path",
    "langgraph_checkpoint_ns": "namespace",
    "lc_agent_name": "agent",
    "lc_source": "source",
}


def describe_caller(model: BaseChatModel, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values: ``model`` and ``provider`` of the model that was called, and, inside a graph, ``node``, ``step``, ``path``
    (a list), ``namespace`` (of checkpoints, one part a nested graph), ``agent`` (its name, or else the node of the outer graph that
    runs it), ``source`` (such as ``summarization``), ``task``, ``attempt`` (1 for the first) and ``run`` (the id of LangChain's run that
    called)."""
    return {"model": _name(model), "provider": type(model).__name__, **_place(metadata)}


def describe_running_node() -> dict[str, Any]:
    """The same of the node that runs now, without the model: for calls that LangChain knows nothing of."""
    return _place(ensure_config().get("metadata") or {})


def _place(metadata: Mapping[str, Any]) -> dict[str, Any]:
    told = {ours: _plain(metadata[theirs]) for theirs, ours in _KEYS.items() if metadata.get(theirs) is not None}
    if "agent" not in told and (around := _graph_around(told.get("namespace", ""))):
        told["agent"] = around
    run = getattr(ensure_config().get("callbacks"), "parent_run_id", None)
    return told | _execution() | ({"run": str(run)} if run else {})


def _graph_around(namespace: str) -> str | None:
    """The node of the outer graph that runs the nested one: LangGraph's older agents have no other name."""
    nodes = namespace.split("|")
    return nodes[-2].partition(":")[0] if len(nodes) > 1 else None


def _name(model: BaseChatModel) -> str:
    for attribute in ("model_name", "model", "model_id"):
        if isinstance(name := getattr(model, attribute, None), str) and name:
            return name
    return type(model).__name__


def _execution() -> dict[str, Any]:
    try:
        from langgraph.runtime import get_runtime

        info = getattr(get_runtime(), "execution_info", None)
    except Exception:  # noqa: BLE001 - outside of a graph, or a LangGraph that does not tell
        return {}
    return {} if info is None else {"task": info.task_id, "attempt": info.node_attempt}


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int | float | bool) else str(value)
