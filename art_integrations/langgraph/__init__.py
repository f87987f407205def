"""LangGraph graphs as agents: ``LangGraphAgent`` makes the model calls of a graph turns of a rollout; nothing in the graph is
edited. Needs the extra ``langgraph``.

Each name is imported when it is first used: the ``art`` program looks at this package's plugin on every command.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from art_core.errors import MissingExtra

if TYPE_CHECKING:
    from .agent import LangGraphAgent
    from .hook import install, installed, uninstall

__all__ = ["install", "installed", "LangGraphAgent", "uninstall"]

_HOMES = {"LangGraphAgent": "agent", "install": "hook", "installed": "hook", "uninstall": "hook"}
_EXTRA = ("langchain_core", "langchain_openai", "langgraph")


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f".{_HOMES[name]}", __name__)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] in _EXTRA:
            raise MissingExtra(error.name.partition(".")[0], "langgraph") from error
        raise
    return getattr(module, name)
