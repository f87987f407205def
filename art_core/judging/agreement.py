"""How far two rankings of the same rollouts agree, and how good a judge is against one that is known."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

from art_core.errors import InputError, JudgeError
from art_core.messages import Message
from art_core.scenario import Scenario
from art_core.trajectory.trajectory import ModelCall, Trajectory, TrajectoryGroup

from .ruler import Placed, Ruler
from .transcript import transcript_of

__all__ = ["Agreement", "Calibration", "Gold", "agreement", "calibrate", "read_gold"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Of the pairs within groups that the first ranking tells apart, the share that the second orders the same way; a tie counts half."""

    share: float | None
    """None without such a pair."""
    pairs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gold:
    """A group whose ranking is known."""

    group: TrajectoryGroup
    scores: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What a judge is worth."""

    groups: int
    """Groups that it scored."""
    unscored: int
    agreement: Agreement
    position_bias: float | None
    """How much more a rollout scores in the first place than in the last one, against its own mean over the votes; None with one vote."""
    spread: float | None
    """Best minus worst score of a group, on average: how far it tells siblings apart."""
    usd_per_group: float | None
    tokens_per_group: float | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def agreement(groups: Iterable[tuple[Sequence[float | None], Sequence[float | None]]]) -> Agreement:
    """Of known and found scores, group by group.

    >>> agreement([([0.0, 0.5, 1.0], [0.1, 0.9, 0.9])])
    Agreement(share=0.8333333333333334, pairs=3)
    """
    same: list[float] = []
    for known, found in groups:
        both = [(k, f) for k, f in zip(known, found, strict=True) if k is not None and f is not None]
        for (known_a, found_a), (known_b, found_b) in combinations(both, 2):
            if known_a != known_b:
                same.append(0.5 if found_a == found_b else float((known_a < known_b) == (found_a < found_b)))
    return Agreement(share=fmean(same) if same else None, pairs=len(same))


def read_gold(path: Path) -> list[Gold]:
    """Groups with known scores, one JSON object a line: ``{"input": ..., "attempts": [{"text": ... or "messages": [...], "score": ...}, ...]}``. Only
    the order of the scores of a group counts.

    Raises:
        InputError: the file cannot be read, or a line has another form; names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{str(path)!r} cannot be read: {error}") from error
    found = [_gold(line, f"{path}:{number}") for number, line in enumerate(lines, start=1) if line.strip()]
    if not found:
        raise InputError(f"{str(path)!r} holds no group")
    return found


async def calibrate(ruler: Ruler, gold: Sequence[Gold]) -> Calibration:
    """Ask about every group and compare with what is known. A group without usable scores is counted and left out."""
    before = ruler.account.copy()
    judged: list[tuple[Gold, list[list[Placed]]]] = []
    for known in gold:
        try:
            judged.append((known, await ruler.votes_on([transcript_of(one) for one in known.group])))
        except JudgeError:
            continue
    spent, count = ruler.account.minus(before), len(judged)
    means = [_means(votes) for _, votes in judged]
    return Calibration(
        groups=count,
        unscored=len(gold) - count,
        agreement=agreement((known.scores, mean) for (known, _), mean in zip(judged, means, strict=True)),
        position_bias=_bias([votes for _, votes in judged]),
        spread=fmean(max(mean) - min(mean) for mean in means) if means else None,
        usd_per_group=None if spent.usd is None or not count else spent.usd / count,
        tokens_per_group=(spent.input_tokens + spent.output_tokens) / count if count else None,
    )


def _means(votes: Sequence[Sequence[Placed]]) -> list[float]:
    """Of each attempt, over the votes."""
    return [fmean(placed.score.value for placed in column) for column in zip(*votes, strict=True)]


def _bias(groups: Sequence[Sequence[Sequence[Placed]]]) -> float | None:
    first: list[float] = []
    last: list[float] = []
    for votes in groups:
        if len(votes) < 2:
            continue
        for vote in votes:
            for placed, mean in zip(vote, _means(votes), strict=True):
                if placed.place == 0:
                    first.append(placed.score.value - mean)
                elif placed.place == len(vote) - 1:
                    last.append(placed.score.value - mean)
    return fmean(first) - fmean(last) if first and last else None


def _gold(line: str, where: str) -> Gold:
    try:
        told = json.loads(line)
        attempts = told["attempts"]
        scores = tuple(float(one["score"]) for one in attempts)
        rollouts = [_rollout(told["input"], one, f"{number}") for number, one in enumerate(attempts)]
    except (ValueError, KeyError, TypeError) as error:
        form = '{"input": ..., "attempts": [{"text": ..., "score": ...}, ...]}'
        raise InputError(f"{where} is not of the form {form}: {error!r}") from error
    if len({transcript_of(rollout).key for rollout in rollouts}) < max(2, len(rollouts)):
        raise InputError(f"{where} needs at least two attempts, and no two that are the same")
    scenario = rollouts[0].scenario
    return Gold(group=TrajectoryGroup(scenario=scenario, trajectories=rollouts, group_id=where), scores=scores)


def _rollout(task: Any, attempt: Mapping[str, Any], name: str) -> Trajectory:
    asked = Message(role="user", content=task if isinstance(task, str) else json.dumps(task, ensure_ascii=False))
    if "messages" in attempt:
        *before, reply = [asked, *map(Message.from_wire, attempt["messages"])]
    else:
        before, reply = [asked], Message(role="assistant", content=str(attempt["text"]))
    trajectory = Trajectory(scenario=Scenario("gold", task), rollout_id=name)
    trajectory.model_calls.append(ModelCall(messages=tuple(before), reply=reply))
    return trajectory
