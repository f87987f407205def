"""``art train task``: a task in words is enough.

task ─► system text ─► inputs, written and tried ─► split ─► train ─► before and after ─► beside a hosted model, if asked for
"""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from art_core.authoring.brief import Brief
from art_core.authoring.task import write_system
from art_core.disk import write_whole
from art_core.errors import InputError
from art_core.loop.config import TrainConfig
from art_core.loop.ending import release
from art_core.loop.paying import keep_answers_of
from art_core.loop.run import RunResult
from art_core.loop.rundir import RunDir
from art_core.observe.progress import Progress

from .authoring import Author, TrainAuthorOptions, author_of, imitating, judged_with, make_written, split_written
from .compare import check_subjects, compare_run, show_comparison
from .judging import RULER, JudgeOptions, text_or_file
from .options import TrainOptions
from .references import make_agent, make_reward
from .train import run_training

__all__ = ["TaskFiles", "task_agent", "task_files", "train_task"]

_TASK = Group("The task", sort_key=0)
_WORDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """What is asked of the model."""

    system: Annotated[str | None, Parameter(group=_TASK)] = None
    """System text: a text, or `@FILE`. Written by the author unless given."""
    messages: Annotated[int, Parameter(group=_TASK, validator=Number(gte=1))] = 1
    """Messages of the user in each scenario; each is sent after the answer to the one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFiles:
    """Where what was written for a task is kept."""

    scenarios: Path

    @property
    def system(self) -> Path:
        """The system text, for a person to edit."""
        return self.scenarios.with_suffix(".system.txt")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """What the trained model is put beside."""

    compare: Annotated[tuple[str, ...], Parameter(group=_TASK)] = ()
    """In the end also measure `provider/model` or `model@URL` on the same held-out inputs. May come several times."""
    price: Annotated[tuple[str, ...], Parameter(group=_TASK)] = ()
    """MODEL=IN,OUT: US dollars for a million tokens, for the costs of a comparison; `trained` is the run's own adapter."""


def train_task(
    task: str,
    /,
    *,
    about: Annotated[TaskOptions, Parameter(name="*")] = TaskOptions(),
    author: Annotated[TrainAuthorOptions, Parameter(name="*")] = TrainAuthorOptions(),  # noqa: B008 - frozen
    judge: Annotated[JudgeOptions, Parameter(name="*")] = JudgeOptions(),  # noqa: B008
    beside: Annotated[CompareOptions, Parameter(name="*")] = CompareOptions(),
    options: Annotated[TrainOptions, Parameter(name="*")] = TrainOptions(),  # noqa: B008
) -> int:
    """Train a model for a task in words: its system text and its inputs are written, its answers are judged.

    ```console
    $ art train task "Turn messy meeting notes into a list of action items with owners" --judge openai/gpt-5-mini
    ```

    Parameters
    ----------
    task
        What is to be done, in words.
    """
    if options.resume is not None:
        raise InputError(f"a run goes on with: art train --resume {options.resume}")
    if judge.judge is None:
        raise InputError("a task in words needs --judge provider/model or model@URL: who says which answers are good")
    writer = author_of(author, judge)
    reward, config = judge.record(RULER), options.config()
    make_reward(reward)
    check_subjects(beside.compare, beside.price)
    brief, files = Brief(about=task, turns=about.messages), task_files(task, author.written)
    options = imitating(options, writer, files.scenarios) if author.imitate else options
    shown = Progress(quiet=options.quiet, as_json=options.json_output)
    try:
        agent = task_agent(writer, task, files, shown, system=about.system)
        made = make_written(writer, brief, files.scenarios, agent=agent, judge=judge, turns=about.messages, shown=shown)
        parts, reward = split_written(made.scenarios, config), judged_with(reward, made)
        return run_training(
            make_agent(agent),
            parts["scenarios"],
            make_reward(reward),
            options=options,
            validation=parts["validation"],
            test=parts["test"],
            origin={"agent": agent, "reward": reward, "written": made.to_record()},
            progress=shown,
            then=functools.partial(_beside, beside, agent, reward, config),
        )
    finally:
        shown.close()


def task_files(task: str, path: Path | None) -> TaskFiles:
    """Where it is kept: in ``path``, or in a file named after the first words of the task."""
    words = re.findall(r"[a-z0-9]+", task.casefold())[:_WORDS]
    return TaskFiles(scenarios=path or Path(f"task-{'-'.join(words) or 'unnamed'}.jsonl"))


def task_agent(
    author: Author, task: str, files: TaskFiles, shown: Progress, *, system: str | None = None
) -> dict[str, Any]:
    """The record of the agent, with the system text that is given, or lies beside the inputs, or else is written there now.

    Raises:
        JudgeError: the author does not write one.
    """
    if system is not None:
        text = text_or_file(system, "system text")
    elif files.system.is_file():
        text = files.system.read_text(encoding="utf-8").strip()
        shown.note(f"system text: {files.system}")
    else:
        text = asyncio.run(_written(author, task))
        write_whole(files.system, f"{text}\n")
        shown.note(f"system text, written into {files.system}: {text}")
    return {"kind": "python", "function": "art_core.authoring.task:TaskAgent", "options": {"system": text}}


async def _written(author: Author, task: str) -> str:
    asker = author.asker()
    try:
        return await write_system(asker, task)
    finally:
        await release(asker)


def _beside(
    options: CompareOptions,
    agent: Mapping[str, Any],
    reward: Mapping[str, Any],
    config: TrainConfig,
    result: RunResult,
    shown: Progress,
) -> RunResult:
    """A run that has come to its end, with the comparison that was asked for."""
    if not options.compare or result.after is None:
        return result
    directory, judge = RunDir.open(result.run_dir), make_reward(reward)
    keep_answers_of(judge, result.run_dir)
    found = compare_run(directory, options.compare, make_agent(agent), judge, config, options.price, shown)
    if not shown.as_json:
        show_comparison(found, result.run_dir)
    return replace(result, summary={**result.summary, "compare": found})
