"""``--reward ruler``: a judge from the command line, and the record of it that run.toml keeps."""

from __future__ import annotations

from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter

from art_core.errors import InputError
from art_core.judging.ruler import Ruler
from art_core.rewards.account import Price
from art_core.rewards.combine import Combined
from art_core.rewards.protocol import GroupReward

from .options import given
from .references import load_reference

__all__ = ["RULER", "JudgeOptions", "parse_price", "ruler", "text_or_file"]

RULER = "ruler"
_JUDGE = Group("The judge", sort_key=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeOptions:
    """Who compares rollouts, and how, where the reward is `ruler`."""

    judge: Annotated[str | None, Parameter(group=_JUDGE)] = None
    """Compares the rollouts of a scenario, with `--reward ruler`: `provider/model`, `model@URL`, or `base`, the model that is
    trained, as it was. The key is read from the environment, such as OPENAI_API_KEY."""
    rubric: Annotated[str | None, Parameter(group=_JUDGE)] = None
    """What is better than what: a text, or `@FILE`."""
    votes: Annotated[int | None, Parameter(group=_JUDGE)] = None
    """How often the judge is asked about a group, each time in another order."""
    judge_price: Annotated[str | None, Parameter(group=_JUDGE)] = None
    """IN,OUT: US dollars for a million tokens."""
    judge_budget: Annotated[float | None, Parameter(group=_JUDGE)] = None
    """US dollars that the judge may cost in the whole run; training stops while the last evaluation can still be paid."""
    judge_rate: Annotated[float | None, Parameter(group=_JUDGE)] = None
    """Requests a minute at most."""
    check: Annotated[str | None, Parameter(group=_JUDGE)] = None
    """A function of (trajectory, scenario), as module:function, that is combined with the judge."""
    combine: Annotated[Literal["sum", "gate", "beside"] | None, Parameter(group=_JUDGE)] = None
    """sum: both count half; gate: only rollouts that pass the check are compared, the others get 0; beside: the check is
    measured and only the judge counts. Default: gate."""
    success_at: Annotated[float | None, Parameter(group=_JUDGE)] = None
    """In evaluations, where a rollout is graded by itself: the score from which on it is a success."""

    def record(self, reward: str, *, instead: str | None = None) -> dict[str, Any]:
        """What run.toml keeps of the reward that ``--reward`` names; the judge is ``instead`` unless one is given.

        Raises:
            InputError: the judge is missing, or options that do not go together.
        """
        told = given(asdict(self))
        if reward != RULER:
            if told:
                raise InputError(f"--{next(iter(told)).replace('_', '-')} has no effect without --reward {RULER}")
            return {"function": reward}
        told.setdefault("judge", instead)
        if told["judge"] is None:
            raise InputError(
                f"--reward {RULER} needs --judge provider/model, model@URL or base: who compares the rollouts"
            )
        if self.combine is not None and self.check is None:
            raise InputError(f"--combine {self.combine} has no effect without --check module:function")
        if self.rubric is not None:
            told["rubric"] = text_or_file(self.rubric, "rubric")
        return {"function": "art_core.cli.judging:ruler", "options": told}


def ruler(
    judge: str,
    *,
    rubric: str | None = None,
    votes: int = 1,
    judge_price: str | None = None,
    judge_budget: float | None = None,
    judge_rate: float | None = None,
    check: str | None = None,
    combine: Literal["sum", "gate", "beside"] = "gate",
    success_at: float | None = None,
) -> GroupReward:
    """The reward of a record that ``JudgeOptions`` made.

    Raises:
        InputError: see ``Ruler`` and ``Combined``; a price that is not two numbers.
    """
    made = Ruler(
        judge,
        rubric,
        votes=votes,
        price=None if judge_price is None else astuple(parse_price(judge_price, "judge")),
        budget=judge_budget,
        requests_per_minute=judge_rate,
        success_at=success_at,
    )
    if check is None:
        return made
    return Combined(made, load_reference(check, what="check"), by=combine)


def parse_price(text: str, whose: str) -> Price:
    """US dollars for a million tokens in and out, from ``IN,OUT``.

    Raises:
        InputError: it is not two numbers of 0 or more.
    """
    price = Price.read(text)
    if price is None:
        raise InputError(
            f"{whose} price {text!r} is not of the form IN,OUT: US dollars for a million tokens, such as 0.25,2"
        )
    return price


def text_or_file(given: str, what: str) -> str:
    """``given``, or what is in the file that ``@FILE`` names.

    Raises:
        InputError: the file cannot be read.
    """
    if not given.startswith("@"):
        return given
    path = Path(given[1:])
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the {what} {str(path)!r} cannot be read: {error}") from error
