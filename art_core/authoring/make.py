"""From a brief to scenarios that can be trained on: written, tried, and written anew in the place of those that were refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from art_core.judging.asking import Asker, Bounds
from art_core.judging.judges import find_judge
from art_core.rewards.account import Account
from art_core.rewards.protocol import PaidReward
from art_core.scenario import Scenario
from art_core.trajectory.trajectory import Trajectory

from .brief import Brief
from .dry_run import DryRun, Tried
from .shelf import Shelf
from .write import Written, write_more

__all__ = ["Made", "make_scenarios"]

_ROUNDS = 3


@dataclass(slots=True, kw_only=True)
class Made:
    """What there is now, and what it took."""

    scenarios: list[Scenario]
    """Those that can be trained on."""
    path: Path
    left_out: Counter[str] = field(default_factory=Counter)
    """Reason → how many entries of the author's answers were left out."""
    refused: list[Scenario] = field(default_factory=list)
    """Those that the dry run refused, of all times."""
    untried: dict[str, str] = field(default_factory=dict)
    """Id of a scenario that could not be tried → why; it stays in the file and is tried the next time."""
    shortfall: str | None = None
    """Why there are fewer than asked for."""
    dry_run: Path | None = None
    """The rollouts of the reference."""
    author: Account = field(default_factory=Account)
    grader: Account = field(default_factory=Account)

    def to_record(self) -> dict[str, Any]:
        """For run.toml."""
        return {
            "file": str(self.path),
            "scenarios": len(self.scenarios),
            "refused": len(self.refused),
            "untried": len(self.untried),
            "author": _plain(self.author),
            "grader": _plain(self.grader),
            **({"dry_run": str(self.dry_run)} if self.dry_run else {}),
            **({"shortfall": self.shortfall} if self.shortfall else {}),
        }


async def make_scenarios(
    author: Any,
    brief: Brief,
    count: int,
    path: str | Path,
    *,
    dry_run: DryRun | None = None,
    on_written: Callable[[int, int], None] = lambda done, of: None,
    on_trying: Callable[[int], None] = lambda count: None,
    on_rollout: Callable[[Trajectory], None] | None = None,
) -> Made:
    """``count`` scenarios in ``path``, all of them answerable where there is a ``dry_run``; making them again goes on where it ended.

    Args:
        author: an ``Asker``, or whoever can be one: ``provider/model``, ``model@URL``, a function of messages, a LangChain chat model.
        on_written: told after each batch how many there are, and are to be.
        on_trying: told how many are about to be tried.

    Raises:
        InputError: ``count`` is not positive, or the file or the directory holds something of another origin.
    """
    asker = author if isinstance(author, Asker) else Asker(find_judge(author), Bounds())
    shelf = Shelf.open(Path(path), brief)
    left_out: Counter[str] = Counter()
    tried, written = Tried(), Written()
    for _ in range(_ROUNDS if dry_run else 1):
        written = await write_more(asker, brief, count, shelf, on_progress=on_written)
        left_out += written.refused
        if dry_run is None or not shelf.untried:
            break
        on_trying(len(shelf.untried))
        tried = await dry_run.of(shelf.untried, on_rollout=on_rollout)
        shelf.settle(tried.answerable, tried.refused)
        if not tried.refused:
            break
    usable = [scenario for scenario in shelf.kept if scenario.id not in tried.untried][:count]
    return Made(
        scenarios=usable,
        path=shelf.path,
        left_out=left_out,
        refused=shelf.refused,
        untried=tried.untried,
        shortfall=_shortfall(len(usable), count, written, shelf, tried),
        dry_run=None if dry_run is None else dry_run.directory,
        author=asker.account,
        grader=dry_run.grader.account if dry_run and isinstance(dry_run.grader, PaidReward) else Account(),
    )


def _shortfall(usable: int, count: int, written: Written, shelf: Shelf, tried: Tried) -> str | None:
    if usable >= count:
        return None
    reasons = [written.shortfall] if written.shortfall else []
    if shelf.refused:
        reasons.append(f"{len(shelf.refused)} were refused by the dry run and are in {shelf.refused_path}")
    if tried.untried:
        first = next(iter(tried.untried.values()))
        reasons.append(f"{len(tried.untried)} could not be tried ({first}); the same command tries them again")
    return f"{usable} of {count} scenarios can be used: {'; '.join(reasons)}"


def _plain(account: Account) -> dict[str, Any]:
    """Without what was not told: TOML has no null."""
    return {name: value for name, value in account.to_dict().items() if value is not None}
