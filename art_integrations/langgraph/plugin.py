"""What this integration adds to ``art``: the agent kind ``langgraph``, ``art train langgraph`` and ``art collect langgraph``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from art_core.errors import InputError
from art_core.plugins import Integration, Verb, made_with

if TYPE_CHECKING:
    from .agent import LangGraphAgent

__all__ = ["integration", "make_agent"]

_SECRET = re.compile(r"(?:^|[_\W])(?:api_?key|token|secret|password|credentials?)$", re.IGNORECASE)


def make_agent(options: Mapping[str, Any]) -> LangGraphAgent:
    """A ``LangGraphAgent`` from plain options; see there. ``input`` and ``on_interrupt`` are given as ``module:name``, and what answers
    in the place of a tool as ``module:name`` of a function or a text, ``text:ANSWER`` or ``replay:FILE``. ``configurable`` is that of the
    config.

    Raises:
        InputError: an unknown option, a value that cannot be used, or a secret, which would be written into the run's directory.
    """
    from art_core.cli.references import load_reference

    from . import LangGraphAgent

    loaded = {name: load_reference(options[name], what=name) for name in ("input", "on_interrupt") if options.get(name)}
    if options.get("tools"):
        loaded["tools"] = _stubs(options["tools"])
    for name in ("configurable", "context"):
        _check_plain(name, options.get(name, {}))
    if "configurable" in options:
        loaded["config"] = {"configurable": options["configurable"]}
    plain = {name: value for name, value in options.items() if name != "configurable"}
    return made_with(LangGraphAgent, {**plain, **loaded}, what="agent kind 'langgraph'")


def _check_plain(option: str, given: Any) -> None:
    """
    Raises:
        InputError: not a table of names, or one of them is that of a secret.
    """
    if not isinstance(given, Mapping):
        raise InputError(f"{option} must give values by name, got {given!r}")
    for name in given:
        if _SECRET.search(str(name)):
            raise InputError(
                f"{option} {name!r} looks like a secret, which would be written into run.toml; set it in the environment for "
                f"the graph to read, or make the agent in Python with LangGraphAgent(config=) or context="
            )


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
        Verb(
            path=("scenarios", "langgraph"),
            command="art_integrations.langgraph.cli_scenarios:scenarios_langgraph",
            help="Write scenarios for a LangGraph graph.",
        ),
    ),
)
