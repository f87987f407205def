"""``art train``: from a TOML file, from Python functions, or on with a run; and what every training verb does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Group, Parameter
from pydantic import Field

from art_core.config import Config, read_toml
from art_core.errors import InputError
from art_core.loop.config import TrainConfig
from art_core.loop.run import RunResult
from art_core.loop.rundir import RunDir
from art_core.observe.progress import Progress
from art_core.observe.sinks import Sink
from art_core.plugins import integrations
from art_core.rewards.protocol import RewardLike
from art_core.rollout.protocol import Agent
from art_core.scenario import Scenarios
from art_core.supervised.run import SftResult
from art_core.supervised.train import atrain

from .judging import JudgeOptions
from .options import TrainOptions, given
from .references import make_agent, make_reward

__all__ = ["DEFAULT_MODEL", "ProgramOptions", "app", "run_training", "show_result", "train_agent"]

_PROGRAM = Group("The program", sort_key=0)

DEFAULT_MODEL = "smollm2-135m"

_EXAMPLE = """
```console
$ art train support.toml --steps 30
$ art train python my_agent:run --scenarios scenarios.jsonl --reward my_agent:score
$ art train task "Turn meeting notes into action items with owners" --judge openai/gpt-5-mini
$ art train sft chats.jsonl
$ art train --resume runs/support
```
"""

app = App(name="train", help="Train a small model to do an agent's job.", help_epilogue=_EXAMPLE)

Options = Annotated[TrainOptions, Parameter(name="*")]
Judge = Annotated[JudgeOptions, Parameter(name="*")]


class TrainFile(Config):
    """What a TOML file for ``art train`` says. Paths are relative to it."""

    model: str | None = None
    """Base model."""
    agent: dict[str, Any]
    """``kind`` and its options; for kind ``python`` (the default) ``function = "module:name"``."""
    scenarios: str | dict[str, Any]
    """A JSONL file, or ``kind`` and options of an integration's source."""
    validation: str | None = None
    """A JSONL file; held out from the scenarios unless given."""
    test: str | None = None
    """A JSONL file; held out from the scenarios unless given."""
    reward: dict[str, Any]
    """``function = "module:name"``, and ``options`` to call it with where it makes the reward."""
    sinks: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Sink kind → its options."""
    train: TrainConfig = Field(default_factory=TrainConfig)
    """See the configuration of a run."""


@app.default
def train_file(file: Path | None = None, /, *, options: Options = TrainOptions()) -> int:  # noqa: B008 - frozen
    """Train as a TOML file says, or go on with a run. Options on the command line win over the file.

    Parameters
    ----------
    file
        A TOML file with `agent`, `scenarios`, `reward`, and optionally `model`, `validation`, `test`, `sinks`, `train`.
    """
    if file is None:
        if options.resume is None:
            raise InputError("say what to train: a TOML file, a verb (see art train --help), or --resume RUN")
        record = RunDir.open(Path(options.resume)).read_training_record()
        agent, reward = remake(record, options.resume)
        return run_training(agent, None, reward, options=options)
    if options.resume is not None:
        raise InputError(
            f"--resume {options.resume} goes on with what its run.toml says; leave out {file}, and give limits as options"
        )
    settings = read_toml(file, TrainFile)
    here = file.parent
    return run_training(
        make_agent(settings.agent),
        _scenarios(settings.scenarios, here),
        make_reward(settings.reward),
        options=options,
        model=settings.model,
        base=settings.train,
        validation=None if settings.validation is None else here / settings.validation,
        test=None if settings.test is None else here / settings.test,
        sinks=[integrations().sink(kind, values) for kind, values in settings.sinks.items()],
        origin={"agent": settings.agent, "reward": settings.reward},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramOptions:
    """How a program is run."""

    input: Annotated[str | None, Parameter(group=_PROGRAM)] = None
    """Makes what the program is called with from a scenario, as module:function. Unless given it is the scenario's input."""
    train: Annotated[tuple[str, ...], Parameter(group=_PROGRAM, consume_multiple=True)] = ()
    """Train only the calls of these models; the others run as in production."""

    def record(self, function: str) -> dict[str, Any]:
        """How to make the agent, for run.toml; what is None was not given."""
        return {"kind": "python", "function": function, "input": self.input, "train": list(self.train) or None}


@app.command(name="python")
def train_python(
    function: str,
    /,
    *,
    scenarios: Path | None = None,
    reward: str | None = None,
    run: Annotated[ProgramOptions, Parameter(name="*")] = ProgramOptions(),
    judge: Judge = JudgeOptions(),  # noqa: B008
    options: Options = TrainOptions(),  # noqa: B008
) -> int:
    """Train a model to do the job of a Python program that calls the OpenAI SDK, in which nothing is edited.

    ```console
    $ art train python my_agent:run --scenarios scenarios.jsonl --reward my_agent:score
    ```

    Parameters
    ----------
    function
        The program, as `module:function`: a function of a scenario's input, or of (scenario, session); modules in the current
        directory can be imported.
    scenarios
        A JSONL file: one object a line with `input`, and optionally `id`, `expected`, `metadata`.
    reward
        A function of (trajectory, scenario) that returns a number, as `module:function`, or `ruler`: a judge.
    """
    return train_agent(run.record(function), scenarios, reward, judge=judge, options=options, what="a program")


app.command(
    "art_core.cli.task:train_task", name="task", help="Train on a task in words: inputs are written, answers judged."
)
app.command("art_core.cli.sft:train_sft", name="sft", help="Fine-tune on chats or on the best stored rollouts.")


def train_agent(
    agent: Mapping[str, Any],
    scenarios: Path | None,
    reward: str | None,
    *,
    judge: JudgeOptions,
    options: TrainOptions,
    what: str,
) -> int:
    """Train an agent of the user's own, made from its record: what the verb of such a kind ends with.

    Args:
        agent: ``kind`` and options; what is None was not given.
        what: what the user calls it, in an error: ``a graph``.

    Raises:
        InputError: the scenarios or the reward are missing, or ``--resume`` is given; told before anything is loaded.
    """
    if options.resume is not None:
        raise InputError(f"a run goes on with: art train --resume {options.resume}")
    if scenarios is None or reward is None:
        missing = (
            "--scenarios FILE.jsonl"
            if scenarios is None
            else "--reward module:function, or --reward ruler with --judge"
        )
        raise InputError(f"{what} needs {missing}: what it is to be asked, and how good its answers are")
    origin = {"agent": given(agent), "reward": judge.record(reward)}
    return run_training(
        make_agent(origin["agent"]), scenarios, make_reward(origin["reward"]), options=options, origin=origin
    )


def run_training(
    agent: Agent,
    scenarios: Scenarios | None,
    reward: RewardLike,
    *,
    options: TrainOptions,
    model: str | None = None,
    base: TrainConfig | None = None,
    validation: Scenarios | None = None,
    test: Scenarios | None = None,
    sinks: Sequence[Sink] = (),
    origin: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    then: Callable[[RunResult, Progress], RunResult] | None = None,
) -> int:
    """Train and show it: what every training verb ends with.

    Args:
        scenarios: not needed with ``options.resume``.
        options: what the user asked for; wins over ``model`` and ``base``.
        base: the verb's own defaults.
        origin: see ``atrain``; needed for ``art train --resume`` and ``art eval`` to make agent and reward again.
        progress: one the verb has already shown something on; made from ``options`` unless given.
        then: what the verb does with the result before it is shown.

    Returns:
        The exit code: 0, or 130 after an interrupt.
    """
    shown = progress or Progress(quiet=options.quiet, as_json=options.json_output)
    try:
        if options.resume is not None:
            record = RunDir.open(Path(options.resume)).read_training_record()
            config = options.config(TrainConfig.build(record.get("config") or {}))
            chosen = options.model
        else:
            config, chosen = options.config(base), options.model or model or DEFAULT_MODEL
        result = asyncio.run(
            atrain(
                agent,
                scenarios,
                reward,
                base_model=chosen,
                config=config,
                validation=validation,
                test=test,
                sinks=sinks,
                resume=options.resume,
                origin=origin,
                progress=shown,
            )
        )
        if then is not None:
            result = then(result, shown)
        return show_result(shown, result, without="no step was completed")
    finally:
        shown.close()


def show_result(shown: Progress, result: RunResult | SftResult, *, without: str) -> int:
    """Tell how a run ended, and ``without`` why there is no LoRA if there is none; returns the exit code."""
    shown.note(f"ended: {result.summary['stop_text']}")
    shown.note(f"LoRA: {result.adapter or f'none, {without}'}")
    report = result.run_dir / "report.html"
    shown.finished(result.summary, run_dir=result.run_dir, report=report if report.is_file() else None)
    return 130 if result.stop_reason == "interrupted" else 0


def remake(record: Mapping[str, Any], run: str | Path) -> tuple[Agent, RewardLike]:
    """The agent and the reward of a run, from its run.toml.

    Raises:
        InputError: it was started from Python code, which alone knows how to make them.
    """
    for part in ("agent", "reward"):
        if not isinstance(record.get(part), Mapping):
            raise InputError(
                f"run {str(run)!r} does not say how to make its {part} again; it was started from Python: "
                "go on there with art.train(..., resume=...)"
            )
    return make_agent(record["agent"]), make_reward(record["reward"])


def _scenarios(given: str | dict[str, Any], here: Path) -> Scenarios:
    if isinstance(given, str):
        return here / given
    options = {key: value for key, value in given.items() if key != "kind"}
    return integrations().scenarios(str(given.get("kind")), options)
