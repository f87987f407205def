"""What this integration adds to ``art``: the agent kind ``mcp``, ``art train mcp``, and scenarios from a server's tools."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from art_core.plugins import Integration, Verb, made_with
from art_core.scenario import Scenario

if TYPE_CHECKING:
    from .agent import McpAgent

__all__ = ["integration"]


def make_agent(options: Mapping[str, Any]) -> McpAgent:
    """An ``McpAgent`` from plain options; see there for their names.

    Raises:
        InputError: an unknown option, or a value that cannot be used.
    """
    from .agent import McpAgent

    return made_with(McpAgent, options, what="agent kind 'mcp'")


def make_scenarios(options: Mapping[str, Any]) -> Iterable[Scenario]:
    """Generated scenarios: ``servers`` and other agent options, ``count``, ``seed``, ``hints`` (``["name=value"]``)."""
    from art_core.scenarios.generate import generate, parse_hints

    rest = dict(options)
    count, seed = int(rest.pop("count", 400)), int(rest.pop("seed", 0))
    hints = parse_hints(rest.pop("hints", ()))
    tools = asyncio.run(make_agent(rest).discover())
    return generate(tools, count, seed=seed, hints=hints).scenarios


integration = Integration(
    name="mcp",
    agents={"mcp": make_agent},
    verbs=(
        Verb(
            path=("train", "mcp"),
            command="art_integrations.mcp.cli:train_mcp",
            help="Train a model to use the tools of an MCP server.",
        ),
        Verb(
            path=("scenarios", "mcp"),
            command="art_integrations.mcp.cli_scenarios:scenarios_mcp",
            help="Write scenarios for the tools of an MCP server.",
        ),
    ),
    scenario_sources={"mcp": make_scenarios},
)
