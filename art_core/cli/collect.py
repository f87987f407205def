"""``art collect``: record an agent with its own model, or with one of a provider; and what every collecting verb does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter
from cyclopts.validators import Number

from art_core.inference.hosted import HostedPolicy
from art_core.inference.original import OriginalPolicy
from art_core.inference.protocol import Policy
from art_core.loop.collect import Collection, acollect, open_collection
from art_core.loop.ending import release
from art_core.loop.preflight import examine
from art_core.loop.rundir import new_path
from art_core.observe.formats import percent
from art_core.observe.progress import Progress
from art_core.rollout.limits import Limits
from art_core.scenario import load_scenarios

from .options import given
from .references import make_agent, make_reward
from .train import ProgramOptions

__all__ = ["ORIGINAL", "CollectOptions", "app", "policy_named", "run_collecting"]

ORIGINAL = "original"
"""The name of the agent's own models."""

_EXAMPLE = """
```console
$ art collect langgraph support_bot.graph:graph --scenarios questions.jsonl --reward my_checks:score
$ art collect python my_agent:run --scenarios questions.jsonl --model openai/gpt-5-mini
```
"""

app = App(name="collect", help="Record an agent with its own model or a provider's.", help_epilogue=_EXAMPLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectOptions:
    """What can be said on the command line of every collecting verb."""

    scenarios: Path
    """A JSONL file: one object a line with `input`, and optionally `id`, `expected`, `metadata`."""
    reward: str | None = None
    """Scores every rollout: a function of (trajectory, scenario), as module:function."""
    model: str | None = None
    """`original`: the agent's own models; `provider/model` or `model@URL`: that one answers in their place. Default:
    original."""
    limit: Annotated[int | None, Parameter(validator=Number(gte=1))] = None
    """Take only so many scenarios, the first ones."""
    siblings: int = 1
    """Rollouts of each scenario."""
    concurrency: int = 8
    """Rollouts that run at the same time."""
    max_turns: int = 16
    """Model calls of one rollout at most."""
    seed: int = 0
    """Of everything random."""
    out: Path | None = None
    """Directory to collect into, or to go on with. Default: a new one in runs."""
    json_output: Annotated[bool, Parameter(name="--json", negative="")] = False
    """Print the summary as one JSON object; progress goes to standard error."""
    quiet: Annotated[bool, Parameter(negative="")] = False
    """Show the result only."""


@app.command(name="python")
def collect_python(
    function: str,
    /,
    *,
    run: Annotated[ProgramOptions, Parameter(name="*")] = ProgramOptions(),  # noqa: B008 - frozen
    options: Annotated[CollectOptions, Parameter(name="*")],
) -> int:
    """Record a Python program that calls the OpenAI SDK, with its own models or with one of a provider in their place.

    ```console
    $ art collect python my_agent:run --scenarios questions.jsonl --reward my_agent:score
    ```

    Parameters
    ----------
    function
        The program, as `module:function`: a function of a scenario's input, or of (scenario, session); modules in the current
        directory can be imported.
    """
    return run_collecting(run.record(function), options)


def policy_named(name: str) -> Policy:
    """The agent's own models for ``original``, else the model of a provider.

    Raises:
        InputError: an unknown provider, or no key for it.
    """
    return OriginalPolicy() if name == ORIGINAL else HostedPolicy(name)


def run_collecting(agent: Mapping[str, Any], options: CollectOptions) -> int:
    """Collect and show it: what every collecting verb ends with. Returns the exit code.

    Args:
        agent: its record, ``kind`` and options; what is None was not given.
    """
    agent_record = given(agent)
    made, model = make_agent(agent_record), options.model or ORIGINAL
    policy, scenarios = policy_named(model), load_scenarios(options.scenarios)[: options.limit]
    reward_record = None if options.reward is None else {"function": options.reward}
    reward = None if reward_record is None else make_reward(reward_record)
    record = {"model": model, "agent": agent_record, "seed": options.seed}
    if reward_record is not None:
        record["reward"] = reward_record
    limits = Limits(turns=options.max_turns)
    shown = Progress(quiet=options.quiet, as_json=options.json_output)
    try:
        path = options.out or new_path("runs", None, f"collected-{model}")
        asked = len(scenarios) * options.siblings

        async def go() -> dict[str, Any]:
            try:
                await examine(made, scenarios, shown.note)
                collection = open_collection(path, record)
                _tell(shown, collection, asked)
                shown.evaluating(f"collecting with {model}", asked)
                return await acollect(
                    made,
                    scenarios,
                    policy,
                    collection,
                    reward=reward,
                    siblings=options.siblings,
                    concurrency=options.concurrency,
                    limits=limits,
                    seed=options.seed,
                    on_rollout=shown.rollout_done,
                )
            finally:
                await release(made, policy)

        summary = asyncio.run(go())
    finally:
        shown.close()
    if options.json_output:
        print(json.dumps({"run": str(path), **summary}, ensure_ascii=False))
    else:
        print(_result(path, summary))
    return 0


def _tell(shown: Progress, collection: Collection, asked: int) -> None:
    if collection.known or collection.failed:
        shown.note(
            f"{len(collection.known)} rollouts are there and are kept; {collection.failed} failed and are made again"
        )
    shown.note(f"collecting {asked} rollouts into {collection.directory.path}")


def _result(path: Path, summary: Mapping[str, Any]) -> str:
    tokens = summary["tokens"]
    lines = [
        f"{summary['rollouts']} rollouts with {summary['model']}, {summary['failed']} failed",
        f"tokens  {_count(tokens['input'])} in, {_count(tokens['output'])} out, in {summary['model_calls']} model calls",
    ]
    if summary["scored"]:
        lines.append(
            f"scored  {summary['scored']}, reward {summary['reward']:.3f}, success {percent(summary['success'])}"
        )
    if summary["first_error"]:
        lines.append(f"failed  {summary['first_error']}")
    return "\n".join([*lines, f"run     {path}"])


def _count(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"
