"""What this integration adds to ``art``: the agent kind ``langgraph``, ``art train langgraph`` and ``art collect langgraph``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from art_core.plugins import Integration, Verb, made_with

if TYPE_CHECKING:
    from .agent import LangGraphAgent

__all__ = ["integration", "make_agent"]


def make_agent(options: Mapping[str, Any]) -> LangGraphAgent:
    """A ``LangGraphAgent`` from plain options; see there. ``input`` and ``on_interrupt`` are given as ``module:name``.

    Raises:
        InputError: an unknown option, or a value that cannot be used.
    """
    from art_core.cli.references import load_reference

    from . import LangGraphAgent

    loaded = {name: load_reference(options[name], what=name) for name in ("input", "on_interrupt") if options.get(name)}
    return made_with(LangGraphAgent, {**options, **loaded}, what="agent kind 'langgraph'")


integration = Integration(
    name="langgraph",
    agents={"langgraph": make_agent},
    verbs=(
        Verb(
            path=("train", "langgraph"),
            command="art_integrations.langgraph.cli:train_langgraph",
            help="Train a model to do the job of a LangGraph graph.",
        ),
        Verb(
            path=("collect", "langgraph"),
            command="art_integrations.langgraph.cli:collect_langgraph",
            help="Record a LangGraph graph with its own models.",
        ),
    ),
)
