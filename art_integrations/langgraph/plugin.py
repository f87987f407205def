"""What this integration adds to ``art``: the agent kind ``langgraph``, ``art train langgraph`` and ``art collect langgraph``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from art_core.errors import InputError
from art_core.plugins import Integration, Verb, made_with

if TYPE_CHECKING:
    from .agent import LangGraphAgent

__all__ = ["integration", "make_agent"]


def make_agent(options: Mapping[str, Any]) -> LangGraphAgent:
    """A ``LangGraphAgent`` from plain options; see there. ``input`` and ``on_interrupt`` are given as ``module:name``, and what answers
    in the place of a tool as ``module:name`` of a function or a text, ``text:ANSWER`` or ``replay:FILE``.

    Raises:
        InputError: an unknown option, or a value that cannot be used.
    """
    from art_core.cli.references import load_reference

    from . import LangGraphAgent

    loaded = {name: load_reference(options[name], what=name) for name in ("input", "on_interrupt") if options.get(name)}
    if options.get("tools"):
        loaded["tools"] = _stubs(options["tools"])
    return made_with(LangGraphAgent, {**options, **loaded}, what="agent kind 'langgraph'")


def _stubs(given: Any) -> dict[str, Any]:
    from art_core.cli.references import load_reference

    from .substitutes import Replay

    if not isinstance(given, Mapping):
        raise InputError(f"tools must give tools by name what answers in their place, got {given!r}")
    made: dict[str, Any] = {}
    for name, stub in given.items():
        kind, _, rest = str(stub).partition(":")
        if kind == "text":
            made[name] = rest
        else:
            made[name] = Replay(rest) if kind == "replay" else load_reference(str(stub), what=f"stub of tool {name!r},")
    return made


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
