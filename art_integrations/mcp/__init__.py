"""MCP servers as environments: ``McpAgent`` trains a model to use their tools. Needs the extra ``mcp``.

Each name is imported when it is first used: the ``art`` program looks at this package's plugin on every command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from art_core.lazy import names_of_extra

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


__getattr__ = names_of_extra(__name__, _HOMES, extra="mcp", needs=("mcp",))
