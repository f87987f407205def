"""LangGraph graphs as agents: ``LangGraphAgent`` makes the model calls of a graph turns of a rollout; nothing in the graph is
edited. Needs the extra ``langgraph``.

Each name is imported when it is first used: the ``art`` program looks at this package's plugin on every command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from art_core.lazy import names_of_extra

if TYPE_CHECKING:
    from .agent import LangGraphAgent
    from .by_hand import capture
    from .hook import install, installed, uninstall
    from .substitutes import Replay, record_answers

__all__ = ["capture", "install", "installed", "LangGraphAgent", "record_answers", "Replay", "uninstall"]

_HOMES = {
    "LangGraphAgent": "agent",
    "Replay": "substitutes",
    "capture": "by_hand",
    "install": "hook",
    "installed": "hook",
    "record_answers": "substitutes",
    "uninstall": "hook",
}
__getattr__ = names_of_extra(
    __name__, _HOMES, extra="langgraph", needs=("langchain_core", "langchain_openai", "langgraph")
)
