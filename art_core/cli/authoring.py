"""Scenarios from a language model on the command line: who writes them, who tries them, where they are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from art_core.authoring.brief import Brief
from art_core.authoring.dry_run import ENOUGH, DryRun
from art_core.authoring.make import Made, make_scenarios
from art_core.errors import InputError
from art_core.judging.asking import Asker, Bounds
from art_core.judging.base_judge import is_base
from art_core.judging.judges import find_judge
from art_core.loop.config import TrainConfig
from art_core.loop.ending import release
from art_core.observe.formats import number
from art_core.observe.progress import Progress
from art_core.rewards.account import Account
from art_core.scenario import Scenario
from art_core.scenarios.split import split

from .collect import policy_named
from .judging import RULER, JudgeOptions, parse_price
from .options import TrainOptions, given
from .references import make_agent, make_reward

__all__ = [
    "Author",
    "AuthorOptions",
    "TrainAuthorOptions",
    "author_of",
    "imitating",
    "judged_with",
    "make_written",
    "split_written",
]

NOBODY = "none"
"""The name of a reference that is nobody: no dry run."""
_COUNT = 160
_AUTHOR = Group("The author of the scenarios", sort_key=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorOptions:
    """Who writes scenarios, and who tries them."""

    author: Annotated[str | None, Parameter(group=_AUTHOR)] = None
    """Writes the scenarios: `provider/model`, or `model@URL`. Default: the judge."""
    author_price: Annotated[str | None, Parameter(group=_AUTHOR)] = None
    """IN,OUT: US dollars for a million tokens."""
    author_budget: Annotated[float | None, Parameter(group=_AUTHOR)] = None
    """US dollars that writing may cost."""
    author_rate: Annotated[float | None, Parameter(group=_AUTHOR)] = None
    """Requests a minute at most."""
    generate: Annotated[int | None, Parameter(group=_AUTHOR, validator=Number(gte=1))] = None
    """How many scenarios to make. Default: 160 by an author, 300 from the schemas of tools."""
    reference: Annotated[str | None, Parameter(group=_AUTHOR)] = None
    """Tries every scenario; those that it does not do well are left out. `provider/model`, `model@URL`, or `none`. Default:
    the author."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainAuthorOptions(AuthorOptions):
    """What can be said besides where the scenarios are trained on at once."""

    written: Annotated[Path | None, Parameter(group=_AUTHOR)] = None
    """File that the scenarios are kept in, and taken from the next time. Default: one named after what is trained."""
    imitate: Annotated[bool, Parameter(group=_AUTHOR, negative="")] = False
    """Fine-tune first on what the reference did well in its dry run, as with `--warm-start`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """What the options come to."""

    model: str
    bounds: Bounds
    count: int
    reference: str | None
    """None for no dry run."""

    def asker(self) -> Asker:
        """
        Raises:
            InputError: an unknown provider, or no key for it.
        """
        return Asker(find_judge(self.model), self.bounds)


def author_of(options: AuthorOptions, judge: JudgeOptions) -> Author:
    """
    Raises:
        InputError: there is nobody to write, or a price or a budget that cannot be used.
    """
    model = options.author or (None if _is_base(judge) else judge.judge)
    if model is None:
        raise InputError("say who writes the scenarios: --author provider/model or model@URL, or --judge for both")
    price = options.author_price if options.author else options.author_price or judge.judge_price
    bounds = Bounds(
        price=None if price is None else parse_price(price, "author"),
        budget=options.author_budget,
        requests_per_minute=options.author_rate or (None if options.author else judge.judge_rate),
        max_reply_tokens=8_000,
    )
    reference = options.reference or model
    return Author(
        model=model,
        bounds=bounds,
        count=options.generate or _COUNT,
        reference=None if reference == NOBODY else reference,
    )


def make_written(
    author: Author,
    brief: Brief,
    path: Path,
    *,
    agent: Mapping[str, Any],
    judge: JudgeOptions,
    turns: int,
    shown: Progress,
) -> Made:
    """Write and try scenarios, and tell what came of it.

    Args:
        agent: the record of the agent that the reference tries them with.
        judge: grades what the reference did; the author does where it is not given, or is the base model of the run.
        turns: model calls of one rollout at most.

    Raises:
        InputError: see ``make_scenarios``; or none can be used.
    """
    asker = author.asker()
    dry_run = None if author.reference is None else _dry_run(author, path, agent, judge, turns, shown)

    async def go() -> Made:
        try:
            return await make_scenarios(
                asker,
                brief,
                author.count,
                path,
                dry_run=dry_run,
                on_written=lambda done, of: shown.note(f"{done} of {of} scenarios are written"),
                on_trying=lambda count: _trying(shown, author, count),
                on_rollout=shown.rollout_done,
            )
        finally:
            await release(asker, *([dry_run] if dry_run else []))

    made = asyncio.run(go())
    _tell(made, shown)
    if not made.scenarios:
        raise InputError(f"there is nothing to train on: {made.shortfall}")
    return made


def split_written(scenarios: Sequence[Scenario], config: TrainConfig) -> dict[str, Sequence[Scenario]]:
    """``scenarios``, ``validation`` and ``test``: nothing asked in one is asked in another.

    Raises:
        InputError: there are too few.
    """
    held_out = config.evaluation
    parts = split(scenarios, validation=held_out.validation, test=held_out.test, seed=config.seed)
    return {"scenarios": parts.train, "validation": parts.validation, "test": parts.test}


def imitating(options: TrainOptions, author: Author, path: Path) -> TrainOptions:
    """``options`` with a warm start on what the reference will have done with the scenarios in ``path``; asked before they are written.

    Raises:
        InputError: there is no reference, or another warm start.
    """
    if options.warm_start is not None:
        raise InputError(f"--imitate has no effect with --warm-start {options.warm_start}; leave one of them out")
    if author.reference is None:
        raise InputError(f"--imitate needs a reference that tries the scenarios; leave --reference {NOBODY} out")
    return replace(options, warm_start=str(_tried_in(path)))


def judged_with(reward: Mapping[str, Any], made: Made) -> dict[str, Any]:
    """The record of a reward, with what the dry run has left of the judge's budget.

    Raises:
        InputError: it has left nothing.
    """
    options, spent = dict(reward.get("options", {})), made.grader.usd or 0.0
    if "judge_budget" not in options:
        return dict(reward)
    options["judge_budget"] -= spent
    if options["judge_budget"] <= 0:
        raise InputError(f"the dry run took {spent:.4f} USD, all of the judge's budget; give more with --judge-budget")
    return {**reward, "options": options}


def _tell(made: Made, shown: Progress) -> None:
    """What was made, what was left out and why, and what it cost."""
    shown.note(f"{len(made.scenarios)} scenarios in {made.path}")
    if made.left_out:
        told = ", ".join(f"{count} {reason}" for reason, count in made.left_out.most_common())
        shown.note(f"left out as they came: {told}")
    if made.shortfall:
        shown.warn(made.shortfall)
    for who, account in (("author", made.author), ("grader of the dry run", made.grader)):
        if account.calls or account.failed:
            shown.note(f"{who}: {_cost(account)}")


def _dry_run(
    author: Author, path: Path, agent: Mapping[str, Any], judge: JudgeOptions, turns: int, shown: Progress
) -> DryRun:
    assert author.reference is not None
    record = (replace(judge, judge=None) if _is_base(judge) else judge).record(RULER, instead=author.model)
    record["options"].setdefault("success_at", ENOUGH)
    return DryRun(
        agent=make_agent(given(agent)),
        policy=policy_named(author.reference),
        model=author.reference,
        grader=make_reward(record),
        directory=_tried_in(path),
        record={"agent": given(agent), "reward": record},
        turns=turns,
        note=shown.note,
    )


def _tried_in(path: Path) -> Path:
    """Where the dry run of the scenarios in ``path`` is kept."""
    return path.with_name(f"{path.stem}-dry-run")


def _is_base(judge: JudgeOptions) -> bool:
    """Whether the judge is the base model of the run, which is not there before the run begins."""
    return judge.judge is not None and is_base(judge.judge)


def _trying(shown: Progress, author: Author, count: int) -> None:
    shown.note(f"{author.reference} tries {count} scenarios")
    shown.evaluating(f"dry run with {author.reference}", count)


def _cost(account: Account) -> str:
    tokens = f"{number(account.input_tokens)} tokens in, {number(account.output_tokens)} out"
    usd = "" if account.usd is None else f", {number(account.usd, 4)} USD"
    return f"{number(account.calls)} requests, {tokens}{usd}"
