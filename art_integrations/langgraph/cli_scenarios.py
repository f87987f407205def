"""``art scenarios langgraph``: what could be asked of a graph, written by a language model."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from art_core.authoring.brief import Brief
from art_core.cli.authoring import AuthorOptions
from art_core.cli.judging import JudgeOptions
from art_core.cli.options import given
from art_core.cli.references import make_agent
from art_core.cli.scenarios import ScenarioOptions, run_writing
from art_core.errors import InputError

from .agent import LangGraphAgent
from .cli import GraphOptions

__all__ = ["scenarios_langgraph"]


def scenarios_langgraph(
    graph: str,
    /,
    *,
    about: str | None = None,
    run: Annotated[GraphOptions, Parameter(name="*")] = GraphOptions(),  # noqa: B008 - frozen
    author: Annotated[AuthorOptions, Parameter(name="*")] = AuthorOptions(),  # noqa: B008
    judge: Annotated[JudgeOptions, Parameter(name="*")] = JudgeOptions(),  # noqa: B008
    options: Annotated[ScenarioOptions, Parameter(name="*")] = ScenarioOptions(),  # noqa: B008
) -> int:
    """Write scenarios for a LangGraph graph, and try each with a reference model in the place of the graph's own.

    ```console
    $ art scenarios langgraph support_bot.graph:graph --about "Support of a shop: orders, stock, returns." --author openai/gpt-5-mini
    ```

    Parameters
    ----------
    graph
        A compiled graph or a function that makes one, as module:name; modules in the current directory can be imported.
    about
        What the agent is for, in words. A graph does not tell that by itself.
    """
    if about is None:
        raise InputError('say what the graph is for: --about "Support of a shop: orders, stock, returns."')
    record = run.record(graph)
    agent = make_agent(given(record))
    assert isinstance(agent, LangGraphAgent)
    brief = Brief(about=about, tools=asyncio.run(agent.tool_specs()))
    shown = options.progress()
    try:
        path = options.out or Path(f"scenarios-{graph.partition(':')[0].partition('.')[0]}.jsonl")
        return run_writing(brief, path, agent=record, author=author, judge=judge, options=options, shown=shown)
    finally:
        shown.close()
