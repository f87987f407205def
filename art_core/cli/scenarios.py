"""``art scenarios``: only the file, for a person to look at and edit; training takes it with ``--scenarios``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter
from cyclopts.validators import Number

from art_core.authoring.brief import Brief
from art_core.authoring.make import Made
from art_core.observe.progress import Progress

from .authoring import AuthorOptions, author_of, make_written
from .judging import JudgeOptions
from .task import task_agent, task_files

__all__ = ["ScenarioOptions", "app", "run_writing"]

_EXAMPLE = """
```console
$ art scenarios mcp "python -m mcp_server_time" --author openai/gpt-5-mini --generate 40
$ art scenarios task "Turn messy meeting notes into a list of action items with owners" --author openai/gpt-5-mini
```
"""

app = App(name="scenarios", help="Write scenarios for an agent, for you to edit.", help_epilogue=_EXAMPLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioOptions:
    """What can be said on the command line of every verb that only writes scenarios."""

    out: Path | None = None
    """File they are kept in; what it holds is gone on with. Default: one named after the agent."""
    max_turns: Annotated[int, Parameter(validator=Number(gte=1))] = 8
    """Model calls of one rollout of the dry run at most."""
    json_output: Annotated[bool, Parameter(name="--json", negative="")] = False
    """Print one JSON object; progress goes to standard error."""
    quiet: Annotated[bool, Parameter(negative="")] = False
    """Show the result only."""

    def progress(self) -> Progress:
        return Progress(quiet=self.quiet, as_json=self.json_output)


@app.command(name="task")
def scenarios_task(
    task: str,
    /,
    *,
    messages: Annotated[int, Parameter(validator=Number(gte=1))] = 1,
    author: Annotated[AuthorOptions, Parameter(name="*")] = AuthorOptions(),  # noqa: B008 - frozen
    judge: Annotated[JudgeOptions, Parameter(name="*")] = JudgeOptions(),  # noqa: B008
    options: Annotated[ScenarioOptions, Parameter(name="*")] = ScenarioOptions(),
) -> int:
    """Write the system text and the inputs of a task in words.

    ```console
    $ art scenarios task "Turn messy meeting notes into a list of action items with owners" --author openai/gpt-5-mini
    ```

    Parameters
    ----------
    task
        What is to be done, in words.
    messages
        Messages of the user in each scenario; each is sent after the answer to the one before.
    """
    brief = Brief(about=task, turns=messages)
    shown = options.progress()
    try:
        files = task_files(task, options.out)
        agent = task_agent(author_of(author, judge), task, files, shown)
        return run_writing(
            brief, files.scenarios, agent=agent, author=author, judge=judge, options=options, shown=shown
        )
    finally:
        shown.close()


def run_writing(
    brief: Brief,
    path: Path,
    *,
    agent: Mapping[str, Any],
    author: AuthorOptions,
    judge: JudgeOptions,
    options: ScenarioOptions,
    shown: Progress,
) -> int:
    """Write, try and show them: what every verb of ``art scenarios`` ends with. Returns the exit code: 0."""
    made = make_written(
        author_of(author, judge), brief, path, agent=agent, judge=judge, turns=options.max_turns, shown=shown
    )
    if options.json_output:
        print(json.dumps(made.to_record(), ensure_ascii=False))
    else:
        print(_result(made))
    return 0


def _result(made: Made) -> str:
    lines = [f"scenarios  {len(made.scenarios)} in {made.path}"]
    if made.refused:
        lines.append(f"refused    {len(made.refused)}, each with the reason, beside them")
    if made.dry_run is not None:
        lines.append(f"dry run    {made.dry_run}, for --warm-start")
    return "\n".join(lines)
