"""``art train mcp``: from a server command to a trained adapter, with nothing else given.

servers ─► tools ─► scenarios, by schema or by an author ─► split ─► worked examples (from train only) ─► train
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter

from art_core.authoring.make import Made
from art_core.authoring.shelf import TRIED
from art_core.cli.authoring import (
    Author,
    TrainAuthorOptions,
    author_of,
    imitating,
    judged_with,
    make_written,
    split_written,
)
from art_core.cli.judging import RULER, JudgeOptions
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
from .cli_options import Found, ServerOptions, find

__all__ = ["train_mcp"]

_TASK = Group("The task", sort_key=0)
_REWARD = "art_core.rewards.tool_call:ToolCallReward"
_CHECK = "art_core.rewards.tool_call:right_calls"
_EXAMPLES = 4
SCHEMA = "schema"
"""The name of an author that is no language model: scenarios are made from the tools' schemas."""
_GENERATED = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """What is asked of the model and how it is scored."""

    scenarios: Annotated[Path | None, Parameter(group=_TASK)] = None
    """A JSONL file of scenarios. Unless given they are made: with `--reward ruler` or `--author` by a language model, else from
    the tools' schemas."""
    reward: Annotated[str | None, Parameter(group=_TASK)] = None
    """A function of (trajectory, scenario), as module:function, or `ruler`: a judge. The expected call is compared unless given."""
    about: Annotated[str | None, Parameter(group=_TASK)] = None
    """What the agent is for, in words, for the author of the scenarios."""
    hint: Annotated[tuple[str, ...], Parameter(group=_TASK)] = ()
    """parameter=value: something real on the server, such as repo_path=/srv/repo; may come several times."""
    examples: Annotated[int | None, Parameter(group=_TASK)] = None
    """Worked examples in the prompt. Default: 4, over as many tools as can be, for a model without
    tools in its chat template; else none, as with --imitate."""
    max_turns: Annotated[int | None, Parameter(group=_TASK)] = None
    """Model calls per rollout. Default: 1 for scenarios made from schemas, which ask for one call, else 8."""
    system: Annotated[str, Parameter(group=_TASK)] = ""
    """System text."""


def train_mcp(
    *servers: str,
    task: Annotated[TaskOptions, Parameter(name="*")] = TaskOptions(),
    server: Annotated[ServerOptions, Parameter(name="*")] = ServerOptions(),  # noqa: B008 - frozen
    author: Annotated[TrainAuthorOptions, Parameter(name="*")] = TrainAuthorOptions(),  # noqa: B008
    judge: Annotated[JudgeOptions, Parameter(name="*")] = JudgeOptions(),  # noqa: B008
    options: Annotated[TrainOptions, Parameter(name="*")] = TrainOptions(),  # noqa: B008
) -> int:
    """Train a model to use the tools of MCP servers.

    Without a scenarios file, requests and the calls that answer them are made from the tools' own schemas; with `--reward ruler`
    they are written by a language model that looks at the server, and tried before they are used.

    ```console
    $ art train mcp "python -m mcp_server_time" --model smollm2-135m
    $ art train mcp "mcp-server-sqlite --db-path shop.db" --reward ruler --judge openai/gpt-5-mini
    ```

    Parameters
    ----------
    servers
        Each a command line, a URL or a path to mcp.json. `python` is the interpreter that runs art.
    """
    if options.resume is not None:
        raise InputError(f"a run goes on with: art train --resume {options.resume}")
    writer = _writer(task, author, judge)
    by_schema = task.scenarios is None and writer is None
    reward_record = _reward(task.reward or (RULER if writer else None), judge, by_schema=by_schema)
    defaults = _defaults(by_schema=by_schema, timed=not options.deterministic)
    config = options.config(defaults)
    make_reward(reward_record)
    given = load_scenarios(task.scenarios) if task.scenarios is not None else None
    examples = _example_count(task, options.model or DEFAULT_MODEL, imitate=author.imitate)
    turns = task.max_turns if task.max_turns is not None else 1 if by_schema else 8
    shown = Progress(quiet=options.quiet, as_json=options.json_output)
    found = find(servers, server, shown, look=writer is not None, max_turns=turns, system=task.system or None)
    origin: dict[str, Any] = {"reward": reward_record}
    parts: dict[str, Sequence[Scenario]]
    if given is not None:
        parts = {"scenarios": given}
    elif writer is not None:
        path = author.written or found.file
        options = imitating(options, writer, path) if author.imitate else options
        made = _written(writer, found, task.about, path, judge, shown)
        origin |= {"written": made.to_record(), "reward": judged_with(reward_record, made)}
        parts = split_written(made.scenarios, config)
    else:
        parts = _make_scenarios(found.catalog, task, author.generate or _GENERATED, config, shown)
    worked = _worked_examples(parts["scenarios"], examples, config.seed, most=task.examples is None)
    settings = found.settings | ({"examples": worked} if worked else {})
    return run_training(
        McpAgent(**settings),
        parts["scenarios"],
        make_reward(origin["reward"]),
        options=options,
        base=defaults,
        validation=parts.get("validation"),
        test=parts.get("test"),
        origin={"agent": {"kind": "mcp", **settings}, **origin},
        progress=shown,
    )


def _writer(task: TaskOptions, options: TrainAuthorOptions, judge: JudgeOptions) -> Author | None:
    """Who writes the scenarios; None if nobody has to.

    Raises:
        InputError: an option that has no effect.
    """
    told = {"about": task.about, **asdict(options)}
    wanted = {name: value for name, value in told.items() if value is not None and value is not False}
    if task.scenarios is not None:
        if wanted:
            raise InputError(f"--{_option(wanted)} has no effect with --scenarios {task.scenarios}: they are written")
        return None
    if options.author != SCHEMA and (options.author or task.reward == RULER):
        return author_of(options, judge)
    wanted = {name: value for name, value in wanted.items() if name not in ("author", "generate")}
    if wanted:
        raise InputError(f"--{_option(wanted)} has no effect without an author: --author provider/model or model@URL")
    return None


def _option(names: Mapping[str, Any]) -> str:
    return next(iter(names)).replace("_", "-")


def _reward(reward: str | None, judge: JudgeOptions, *, by_schema: bool) -> dict[str, Any]:
    """What run.toml keeps of the reward. Where scenarios say which call is right, that is measured beside a judge."""
    if reward is None:
        return judge.record(_REWARD) | {"options": {}}
    if reward == RULER and by_schema and judge.check is None:
        judge = replace(judge, check=_CHECK, combine="beside")
    return judge.record(reward)


def _written(writer: Author, found: Found, about: str | None, path: Path, judge: JudgeOptions, shown: Progress) -> Made:
    return make_written(
        writer,
        found.brief(about),
        path,
        agent={"kind": "mcp", **found.settings},
        judge=judge,
        turns=found.settings["max_turns"],
        shown=shown,
    )


def _defaults(*, by_schema: bool, timed: bool) -> TrainConfig:
    """What suits short, checkable calls on a laptop: many siblings compared, few trained, little made of hair-breadth
    differences in partial credit, and samples cool enough that a small model's slips do not hide its decisions.

    Without ``timed`` there is no limit on the time the run takes."""
    if not by_schema:
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


def _example_count(task: TaskOptions, model: str, *, imitate: bool) -> int:
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
    if task.scenarios is not None or imitate:
        return 0
    from art_core.models.load import load_tokenizer
    from art_core.rendering.renderer import Renderer

    return 0 if Renderer(load_tokenizer(model)).native_tools else _EXAMPLES


def _make_scenarios(
    catalog: Catalog, task: TaskOptions, count: int, config: TrainConfig, shown: Progress
) -> dict[str, Sequence[Scenario]]:
    made = generate(catalog.specs, count, seed=config.seed, hints=parse_hints(task.hint))
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


def _worked_examples(train: Sequence[Scenario], count: int, seed: int, *, most: bool) -> list[dict[str, Any]]:
    """Requests of training scenarios, each with the call that answers it, or the first one that the reference made.

    Args:
        most: ``count`` is the most of what there is.

    Raises:
        InputError: there are fewer, and not ``most``.
    """
    tried = [
        replace(one, expected={"calls": one.metadata[TRIED]["calls"][:1]}) if TRIED in one.metadata else one
        for one in train
    ]
    if most:
        count = min(count, sum(bool((one.expected or {}).get("calls")) for one in tried) if count else 0)
    worked = worked_examples(tried, count, seed=seed) if count else []
    return [
        {"request": one.input, "tool": call["name"], "arguments": call["arguments"]}
        for one in worked
        for call in one.expected["calls"][:1]
    ]
