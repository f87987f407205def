"""``art train langgraph`` and ``art collect langgraph``: a graph, scenarios and a reward, all of the user's own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter

from art_core.cli.collect import CollectOptions, run_collecting
from art_core.cli.judging import JudgeOptions
from art_core.cli.options import TrainOptions
from art_core.cli.train import train_agent
from art_core.errors import InputError

__all__ = ["collect_langgraph", "train_langgraph"]

_GRAPH = Group("The graph", sort_key=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphOptions:
    """How the graph is run."""

    input: Annotated[str | None, Parameter(group=_GRAPH)] = None
    """Makes the graph's input from a scenario, as module:function. Unless given, a text becomes a message or the
    graph's only field, and an object is the input itself."""
    train: Annotated[tuple[str, ...], Parameter(group=_GRAPH, consume_multiple=True)] = ()
    """Train only the calls of these models, nodes or agents; the others run as in production. `planner=plans` trains the
    planner's calls as the adapter plans; give every name one to train several adapters at once."""
    configurable: Annotated[tuple[str, ...], Parameter(group=_GRAPH, consume_multiple=True)] = ()
    """What the graph finds in `configurable` of its config: `NAME=VALUE`, where a value is JSON or else a text."""
    context: Annotated[tuple[str, ...], Parameter(group=_GRAPH, consume_multiple=True)] = ()
    """Fields of the graph's runtime context: `NAME=VALUE`, as of `--configurable`."""
    on_interrupt: Annotated[str | None, Parameter(group=_GRAPH)] = None
    """Answers the graph's interrupts, as module:function."""
    graph_steps: Annotated[int, Parameter(group=_GRAPH)] = 100
    """Most steps of the graph in one rollout."""
    share: Annotated[bool, Parameter(group=_GRAPH, negative="")] = False
    """Give all rollouts the graph's own cache, store and checkpointer instead of fresh ones."""

    tools: Annotated[tuple[str, ...], Parameter(group=_GRAPH, consume_multiple=True)] = ()
    """What answers in the place of tools: `NAME=module:function`, `NAME=text:ANSWER` or `NAME=replay:FILE`. All others really
    run."""
    allow_destructive: Annotated[bool, Parameter(group=_GRAPH, negative="")] = False
    """Let tools really run whose name or MCP server says that they can do harm."""

    def record(self, graph: str) -> dict[str, Any]:
        """How to make the agent, for run.toml; what is None was not given."""
        return {
            "kind": "langgraph",
            "graph": graph,
            "steps": self.graph_steps,
            "share": self.share,
            "input": self.input,
            "train": _selected(self.train),
            "configurable": _values(self.configurable, "--configurable"),
            "context": _values(self.context, "--context"),
            "on_interrupt": self.on_interrupt,
            "tools": _stubs(self.tools),
            "allow_destructive": self.allow_destructive or None,
        }


def train_langgraph(
    graph: str,
    /,
    *,
    scenarios: Path | None = None,
    reward: str | None = None,
    run: Annotated[GraphOptions, Parameter(name="*")] = GraphOptions(),
    judge: Annotated[JudgeOptions, Parameter(name="*")] = JudgeOptions(),  # noqa: B008
    options: Annotated[TrainOptions, Parameter(name="*")] = TrainOptions(),  # noqa: B008
) -> int:
    """Train a model to do the job of a LangGraph graph, in which nothing is edited.

    ```console
    $ art train langgraph support_bot.graph:graph --scenarios questions.jsonl --reward my_checks:score
    ```

    Parameters
    ----------
    graph
        A compiled graph or a function that makes one, as module:name; modules in the current directory can be imported.
    scenarios
        A JSONL file: one object a line with `input`, and optionally `id`, `expected`, `metadata`.
    reward
        A function of (trajectory, scenario) that returns a number, as module:function, or `ruler`: a judge.
    """
    return train_agent(run.record(graph), scenarios, reward, judge=judge, options=options, what="a graph")


def collect_langgraph(
    graph: str,
    /,
    *,
    run: Annotated[GraphOptions, Parameter(name="*")] = GraphOptions(),
    options: Annotated[CollectOptions, Parameter(name="*")],
) -> int:
    """Record a LangGraph graph with its own models, or with one of a provider in their place.

    ```console
    $ art collect langgraph support_bot.graph:graph --scenarios questions.jsonl --reward my_checks:score
    ```

    Parameters
    ----------
    graph
        A compiled graph or a function that makes one, as module:name; modules in the current directory can be imported.
    """
    return run_collecting(run.record(graph), options)


def _selected(train: tuple[str, ...]) -> list[str] | dict[str, str] | None:
    """What ``--train`` says: names, or names with adapters.

    Raises:
        InputError: some have an adapter and some have none.
    """
    named = [name for name in train if "=" in name]
    if not named:
        return list(train) or None
    if len(named) < len(train):
        bare = next(name for name in train if "=" not in name)
        raise InputError(f"--train gives {named[0]!r} an adapter and {bare!r} none; write {bare}=ADAPTER too")
    return {name: adapter for name, _, adapter in (pair.partition("=") for pair in named)}


def _values(pairs: tuple[str, ...], option: str) -> dict[str, Any] | None:
    """What ``--configurable`` or ``--context`` says.

    Raises:
        InputError: one has no name.
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise InputError(
                f"{option} {pair!r} does not give a value; write NAME=VALUE, such as user_id=ada or limit=3"
            )
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found or None


def _stubs(tools: tuple[str, ...]) -> dict[str, str] | None:
    """What ``--tools`` says.

    Raises:
        InputError: one has no name or no answer.
    """
    for pair in tools:
        name, _, answer = pair.partition("=")
        if not name or not answer:
            raise InputError(
                f"--tools {pair!r} does not say what answers; write NAME=module:function, NAME=text:ANSWER or NAME=replay:FILE"
            )
    return dict(pair.split("=", 1) for pair in tools) or None
