"""``art scenarios mcp``: what could be asked of the servers, written by a language model that has looked at them."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from art_core.cli.authoring import AuthorOptions
from art_core.cli.judging import JudgeOptions
from art_core.cli.scenarios import ScenarioOptions, run_writing

from .cli_options import ServerOptions, find

__all__ = ["scenarios_mcp"]


def scenarios_mcp(
    *servers: str,
    about: str | None = None,
    server: Annotated[ServerOptions, Parameter(name="*")] = ServerOptions(),  # noqa: B008 - frozen
    author: Annotated[AuthorOptions, Parameter(name="*")] = AuthorOptions(),  # noqa: B008
    judge: Annotated[JudgeOptions, Parameter(name="*")] = JudgeOptions(),  # noqa: B008
    options: Annotated[ScenarioOptions, Parameter(name="*")] = ScenarioOptions(),  # noqa: B008
) -> int:
    """Write scenarios for the tools of MCP servers, and try each with a reference model and the real servers.

    ```console
    $ art scenarios mcp "python -m mcp_server_time" --author openai/gpt-5-mini --generate 40
    ```

    Parameters
    ----------
    servers
        Each a command line, a URL or a path to mcp.json. `python` is the interpreter that runs art.
    about
        What the agent is for, in words.
    """
    shown = options.progress()
    try:
        found = find(servers, server, shown, look=True, max_turns=options.max_turns)
        return run_writing(
            found.brief(about),
            options.out or found.file,
            agent={"kind": "mcp", **found.settings},
            author=author,
            judge=judge,
            options=options,
            shown=shown,
        )
    finally:
        shown.close()
