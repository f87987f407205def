"""``art train mcp``: from a server command to a trained adapter, with nothing else given.

servers ─► tools ─► scenarios ─► split ─► worked examples (from train only) ─► train
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter

from art_core.cli.judging import JudgeOptions
from art_core.cli.options import TrainOptions
from art_core.cli.references import make_reward
from art_core.cli.train import DEFAULT_MODEL, run_training
from art_core.errors import InputError
from art_core.loop.config import TrainConfig
from art_core.observe.progress import Progress
from art_core.scenario import Scenario, load_scenarios
from art_core.scenarios.generate import generate, parse_hints
from art_core.scenarios.split import balanced, split, worked_examples

from .agent import McpAgent
from .catalog import Catalog
from .commands import Server, parse_servers

__all__ = ["train_mcp"]

_SERVER = Group("The server", sort_key=0)
_TASK = Group("The task", sort_key=0)
_REWARD = "art_core.rewards.tool_call:ToolCallReward"
_EXAMPLES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """How the servers are run and which of their tools are offered."""

    isolation: Annotated[Literal["rollout", "shared", "pool"] | None, Parameter(group=_SERVER)] = None
    """A session per rollout, one for all, or a pool of reused ones. Default: rollout, or shared where the server
    declares every offered tool read-only."""
    fixture: Annotated[Path | None, Parameter(group=_SERVER)] = None
    """A directory to copy for every rollout; its place is written {workdir} in the command."""
    tools: Annotated[tuple[str, ...], Parameter(group=_SERVER, consume_multiple=True)] = ()
    """Offer only these tools."""
    exclude_tools: Annotated[tuple[str, ...], Parameter(group=_SERVER, consume_multiple=True)] = ()
    """Offer all tools but these."""
    allow_destructive: Annotated[bool, Parameter(group=_SERVER, negative="")] = False
    """Also offer tools that the server marks as destructive or as reaching the open world."""
    resources: Annotated[bool, Parameter(group=_SERVER, negative="")] = False
    """Offer the server's resources through a tool that reads them."""
    env: Annotated[tuple[str, ...], Parameter(group=_SERVER)] = ()
    """NAME=VALUE for the server's environment; ${OTHER} in the value is looked up here."""
    header: Annotated[tuple[str, ...], Parameter(group=_SERVER)] = ()
    """NAME=VALUE, an HTTP header; write secrets as ${VARIABLE}."""
    bearer: Annotated[str | None, Parameter(group=_SERVER)] = None
    """Name of the environment variable that holds a bearer token."""
    concurrency_per_server: Annotated[int | None, Parameter(group=_SERVER)] = None
    """Calls in flight at once per server."""
    calls_per_second: Annotated[float | None, Parameter(group=_SERVER)] = None
    """Calls started per second per server."""
    call_timeout: Annotated[float, Parameter(group=_SERVER)] = 30.0
    """Seconds for one call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """What is asked of the model and how it is scored."""

    scenarios: Annotated[Path | None, Parameter(group=_TASK)] = None
    """A JSONL file of scenarios; made from the tools' schemas unless given."""
    reward: Annotated[str | None, Parameter(group=_TASK)] = None
    """A function of (trajectory, scenario), as module:function, or `ruler`: a judge. The expected call is compared unless given."""
    generate: Annotated[int, Parameter(group=_TASK)] = 300
    """How many scenarios to make."""
    hint: Annotated[tuple[str, ...], Parameter(group=_TASK)] = ()
    """parameter=value: something real on the server, such as repo_path=/srv/repo; may come several times."""
    examples: Annotated[int | None, Parameter(group=_TASK)] = None
    """Worked examples in the prompt. Default: 4, over as many tools as can be, for a model without
    tools in its chat template; else none."""
    max_turns: Annotated[int | None, Parameter(group=_TASK)] = None
    """Model calls per rollout. Default: 1 for generated scenarios, which ask for one call, else 8."""
    system: Annotated[str, Parameter(group=_TASK)] = ""
    """System text."""


def train_mcp(
    *servers: str,
    task: Annotated[TaskOptions, Parameter(name="*")] = TaskOptions(),
    server: Annotated[ServerOptions, Parameter(name="*")] = ServerOptions(),
    judge: Annotated[JudgeOptions, Parameter(name="*")] = JudgeOptions(),  # noqa: B008
    options: Annotated[TrainOptions, Parameter(name="*")] = TrainOptions(),  # noqa: B008
) -> int:
    """Train a model to use the tools of MCP servers.

    Without a scenarios file, requests and the calls that answer them are made from the tools' own schemas.

    ```console
    $ art train mcp "python -m mcp_server_time" --model smollm2-135m
    ```

    Parameters
    ----------
    servers
        Each a command line, a URL or a path to mcp.json. `python` is the interpreter that runs art.
    """
    if options.resume is not None:
        raise InputError(f"a run goes on with: art train --resume {options.resume}")
    defaults = _defaults(generated=task.scenarios is None, timed=not options.deterministic)
    config = options.config(defaults)
    reward_record = judge.record(task.reward or _REWARD) | ({} if task.reward else {"options": {}})
    reward = make_reward(reward_record)
    given = load_scenarios(task.scenarios) if task.scenarios is not None else None
    settings = _agent_options(servers, server, task)
    examples = _example_count(task, options.model or DEFAULT_MODEL)
    shown = Progress(quiet=options.quiet, as_json=options.json_output)
    agent = McpAgent(**settings)
    catalog = asyncio.run(_discover(agent))
    if server.isolation is None and catalog.read_only and not agent.uses_workdir:
        settings["isolation"] = "shared"
    _show(shown, agent.servers, catalog, settings["isolation"])
    parts: dict[str, Sequence[Scenario]]
    if given is None:
        parts = _make_scenarios(catalog, task, config, shown)
        worked = worked_examples(parts["scenarios"], examples, seed=config.seed) if examples else []
        settings["examples"] = [_worked(scenario) for scenario in worked]
    else:
        parts = {"scenarios": given}
    return run_training(
        McpAgent(**settings),
        parts["scenarios"],
        reward,
        options=options,
        base=defaults,
        validation=parts.get("validation"),
        test=parts.get("test"),
        origin={"agent": {"kind": "mcp", **settings}, "reward": reward_record},
        progress=shown,
    )


def _defaults(*, generated: bool, timed: bool) -> TrainConfig:
    """What suits short, checkable calls on a laptop: many siblings compared, few trained, little made of hair-breadth
    differences in partial credit, and samples cool enough that a small model's slips do not hide its decisions.

    Without ``timed`` there is no limit on the time the run takes."""
    if not generated:
        return TrainConfig()
    return TrainConfig.build(
        rollout={
            "max_tokens": 80,
            "group_size": 8,
            "scenarios_per_step": 6,
            "concurrency": 64,
            "temperature": 0.65,
        },
        trained_per_group=4,
        advantage_scale="none",
        training={"learning_rate": 2e-4, "betas": (0.8, 0.99)},
        steps=60,
        max_time="11m40s" if timed else None,
    )


def _agent_options(servers: Sequence[str], server: ServerOptions, task: TaskOptions) -> dict[str, Any]:
    """The arguments of ``McpAgent`` as plain values, so that run.toml can hold them."""
    turns = task.max_turns if task.max_turns is not None else 1 if task.scenarios is None else 8
    settings: dict[str, Any] = {
        "servers": [_with_options(item, server).to_entry() for item in parse_servers(list(servers))],
        "isolation": server.isolation or "rollout",
        "max_turns": turns,
        "call_timeout": server.call_timeout,
    }
    optional = {
        "fixture": str(server.fixture) if server.fixture else None,
        "tools": list(server.tools) or None,
        "exclude_tools": list(server.exclude_tools) or None,
        "allow_destructive": server.allow_destructive or None,
        "resources": server.resources or None,
        "system": task.system or None,
    }
    return settings | {name: value for name, value in optional.items() if value is not None}


def _with_options(item: Server, options: ServerOptions) -> Server:
    """A server with what the command line adds to it."""
    more: dict[str, Any] = {
        "env": {**item.env, **_pairs(options.env, "--env")},
        "headers": {**item.headers, **_pairs(options.header, "--header")},
        "bearer": options.bearer or item.bearer,
        "concurrency": options.concurrency_per_server or item.concurrency,
        "calls_per_second": options.calls_per_second or item.calls_per_second,
    }
    return replace(item, **more)


def _pairs(given: Sequence[str], option: str) -> dict[str, str]:
    pairs = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputError(f"{option} {text!r} is not of the form NAME=VALUE")
        pairs[name] = value
    return pairs


def _example_count(task: TaskOptions, model: str) -> int:
    """How many worked examples to show.

    Raises:
        InputError: a negative number, examples for given scenarios, or an unknown model.
    """
    if task.examples and task.scenarios is not None:
        raise InputError("--examples needs generated scenarios; with --scenarios put examples into their input")
    if task.examples is not None:
        if task.examples < 0:
            raise InputError(f"--examples {task.examples} must be 0 or more")
        return task.examples
    if task.scenarios is not None:
        return 0
    from art_core.models.load import load_tokenizer
    from art_core.rendering.renderer import Renderer

    return 0 if Renderer(load_tokenizer(model)).native_tools else _EXAMPLES


async def _discover(agent: McpAgent) -> Catalog:
    try:
        return await agent.listing()
    finally:
        await agent.close()


def _show(shown: Progress, servers: Sequence[Server], catalog: Catalog, isolation: str) -> None:
    for server in servers:
        shown.note(f"server {server.name}: {server.shown}")
    if isolation == "shared" and catalog.read_only:
        shown.note(
            "every offered tool is declared read-only: one session serves all rollouts (--isolation rollout: one each)"
        )
    shown.tools(catalog.specs, source=" and ".join(server.name for server in servers))
    for tool in catalog.withheld:
        shown.note(f"withheld: {tool.name}: {tool.withheld}")


def _make_scenarios(
    catalog: Catalog, task: TaskOptions, config: TrainConfig, shown: Progress
) -> dict[str, Sequence[Scenario]]:
    made = generate(catalog.specs, task.generate, seed=config.seed, hints=parse_hints(task.hint))
    for tool, reason in made.skipped.items():
        shown.warn(f"no scenarios for tool {tool}: {reason}")
    for parameter in made.unhinted:
        shown.note(
            f"{parameter} names something on the server and was made up; give real ones with --hint {parameter}=..."
        )
    if made.shortfall:
        shown.note(made.shortfall)
    parts = split(
        made.scenarios, validation=config.evaluation.validation, test=config.evaluation.test, seed=config.seed
    )
    return {"scenarios": balanced(parts.train), "validation": parts.validation, "test": parts.test}


def _worked(scenario: Scenario) -> dict[str, Any]:
    call = scenario.expected["calls"][0]
    return {"request": scenario.input, "tool": call["name"], "arguments": call["arguments"]}
