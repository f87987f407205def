"""MCP servers as environments: ``McpAgent`` trains a model to use their tools. Needs the extra ``mcp``.

Each name is imported when it is first used: the ``art`` program looks at this package's plugin on every command.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from art_core.errors import MissingExtra

if TYPE_CHECKING:
    from .agent import McpAgent
    from .catalog import Catalog, ListedTool
    from .commands import OAuth, Server
    from .environment import McpEnvironment
    from .examples import Example
    from .results import ToolResult

__all__ = ["Catalog", "Example", "ListedTool", "McpAgent", "McpEnvironment", "OAuth", "Server", "ToolResult"]

_HOMES = {
    "Catalog": "catalog",
    "Example": "examples",
    "ListedTool": "catalog",
    "McpAgent": "agent",
    "McpEnvironment": "environment",
    "OAuth": "commands",
    "Server": "commands",
    "ToolResult": "results",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f".{_HOMES[name]}", __name__)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] == "mcp":
            raise MissingExtra("mcp", "mcp") from error
        raise
    return getattr(module, name)
