"""RULER: siblings scored relative to each other by a language model, without labels.

    group ─► transcripts, equal ones once ─► for each vote: another order, other names ─► the judge ─► checked scores ─► mean

Nothing depends on the order in which siblings come: they are sorted by what they did, then shuffled by a key drawn from that. So the same group
asks the same question again, and a cached answer is found. A judge that fails, however it does, leaves the group unscored with
the reason: never 0, and never the end of a run.

Source: relative scores of siblings by a judge are the idea of OpenPipe's RULER.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from art_core.errors import InputError, JudgeError
from art_core.randomness import rng
from art_core.rewards.account import Account, Price
from art_core.rewards.protocol import Borrower, check_lent
from art_core.rewards.score import score_group
from art_core.trajectory.trajectory import Reward, TrajectoryGroup

from .asking import Asker, Bounds
from .base_judge import BaseJudge
from .cache import JudgeCache, key_of
from .judges import find_judge
from .prompt import COMPARE, DEFAULT_RUBRIC, GRADE, compose
from .reply import Score
from .transcript import Transcript, transcript_of

__all__ = ["Placed", "Ruler", "ruler_score_group"]

_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"  # no vowels: names spell nothing
_TIE = 0.5
_SHRINK = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """The score of one attempt in one vote."""

    score: Score
    place: int
    """Where it was shown: 0 is first."""


class Ruler:
    """See ``rewards.protocol.GroupReward``.

    Args:
        judge: ``provider/model``, ``model@URL``, ``base`` for the base model of the run, a function of messages, or a LangChain chat model;
            see ``judging.judges``.
        rubric: what is better than what, in words; None for ``DEFAULT_RUBRIC``.
        votes: how often the judge is asked about a group, each time in another order; the scores are averaged.
        max_prompt_tokens: of a prompt, by an upper estimate; what is longer is cut in the middle. A base model's context bounds it too.
        cache: a directory that remembers answers; a run brings its own.
        success_at: a rollout that is graded by itself succeeds from this score on; None leaves that open.
        price: US dollars for a million tokens in and out.
        seed: of the orders.
        bounds: see ``asking.Bounds``: ``attempts``, ``concurrency``, ``requests_per_minute``, ``max_reply_tokens``, ``seconds``, ``budget``.

    Raises:
        InputError: an argument that cannot be used, an unknown provider, or no key for it.
    """

    def __init__(
        self,
        judge: Any,
        rubric: str | None = None,
        *,
        votes: int = 1,
        max_prompt_tokens: int = 32_000,
        cache: str | Path | None = None,
        success_at: float | None = None,
        price: tuple[float, float] | None = None,
        seed: int = 0,
        **bounds: Any,
    ) -> None:
        if not isinstance(votes, int) or isinstance(votes, bool) or votes < 1:
            raise InputError(f"votes of a judge must be a whole number of at least 1, got {votes!r}")
        costs = None if price is None else Price(input=price[0], output=price[1])
        self._asker = Asker(find_judge(judge), Bounds(price=costs, **bounds))
        self.rubric = DEFAULT_RUBRIC if rubric is None else rubric
        self._votes, self._max_tokens, self._seed = votes, max_prompt_tokens, seed
        self._success_at = success_at
        self._cache = JudgeCache(None if cache is None else Path(cache))
        self._own_cache = cache is not None

    @property
    def account(self) -> Account:
        """What the judge was asked, and what that cost."""
        return self._asker.account

    @property
    def budget(self) -> float | None:
        """US dollars that the judge may cost; None for no limit."""
        return self._asker.bounds.budget

    @property
    def exhausted(self) -> str | None:
        """Why no further group is scored; None while the budget lasts."""
        return self._asker.exhausted

    @property
    def measured_by(self) -> dict[str, str]:
        """See ``rewards.protocol.ToldReward``."""
        told = f"{self._asker.judge.name}, which graded each rollout by itself, by another prompt than it compared siblings with"
        return {"success": told, "reward": told}

    @property
    def borrower(self) -> Borrower | None:
        """See ``rewards.protocol.LocalReward``."""
        return self._asker.judge if isinstance(self._asker.judge, BaseJudge) else None

    def keep_in(self, directory: Path) -> None:
        """Remember answers there, unless a cache was given."""
        if not self._own_cache:
            self._cache = JudgeCache(directory)

    async def close(self) -> None:
        """Close what the judge holds open."""
        await self._asker.close()

    async def score_group(self, group: TrajectoryGroup) -> list[Reward | None]:
        """A score from 0 to 1 for each sibling, in order; rollouts that did the same score the same. In an evaluation, where groups have one
        rollout, that is graded by itself, with another prompt.

        Raises:
            JudgeError: no vote came to usable scores; names the last problem.
        """
        transcripts = [transcript_of(sibling) for sibling in group]
        attempts = {transcript.key: transcript for transcript in transcripts}
        alone = len(transcripts) == 1
        if alone and not group.metadata.get("evaluating"):
            self.account.not_sent += 1
            raise JudgeError("there is nothing to compare this rollout with: its siblings failed")
        if len(attempts) == 1 and not alone:
            self.account.not_sent += 1
            return [Reward(_TIE, reason="all siblings did the same; the judge was not asked") for _ in transcripts]
        scores = await self._judged([attempts[key] for key in sorted(attempts, key=key_of)])
        return [self._reward(scores[transcript.key], alone=alone) for transcript in transcripts]

    def _reward(self, score: Score, *, alone: bool) -> Reward:
        told = score.value >= self._success_at if alone and self._success_at is not None else None
        return Reward(score.value, success=told, parts={"judge": score.value}, reason=score.explanation)

    async def votes_on(self, attempts: Sequence[Transcript]) -> list[list[Placed]]:
        """The votes that came to something; each has the score of every attempt, in their order, and the place it was shown in.

        Raises:
            JudgeError: none did; names the last problem.
        """
        votes = await asyncio.gather(*(self._vote(attempts, n) for n in range(self._votes)), return_exceptions=True)
        failures = [vote for vote in votes if isinstance(vote, BaseException)]
        for failure in failures:
            if not isinstance(failure, JudgeError):
                raise failure
        usable = [vote for vote in votes if not isinstance(vote, BaseException)]
        if not usable:
            self.account.unscored += 1
            raise failures[-1]
        self.account.groups += 1
        return usable

    async def _judged(self, attempts: Sequence[Transcript]) -> dict[Any, Score]:
        """The mean of the votes, by the key of each attempt."""
        votes = await self.votes_on(attempts)
        missing = f" ({len(votes)} of {self._votes} votes)" if len(votes) < self._votes else ""
        return {
            attempt.key: _mean([vote[number].score for vote in votes], missing)
            for number, attempt in enumerate(attempts)
        }

    async def _vote(self, attempts: Sequence[Transcript], number: int) -> list[Placed]:
        """One vote, in the order of ``attempts``."""
        draw = rng("ruler", self._seed, number, key_of([attempt.key for attempt in attempts]))
        order = draw.sample(range(len(attempts)), len(attempts))
        names = _names(len(attempts), draw)
        shown = {names[position]: attempts[position] for position in order}
        instructions = COMPARE if len(attempts) > 1 else GRADE
        messages = self._composed(shown, instructions)
        key = key_of([self._asker.judge.name, messages])
        if (known := self._cache.get(key)) is not None:
            self.account.cached += 1
            scores = {name: Score(value=value, explanation=why) for name, (value, why) in known["scores"].items()}
        else:
            scores = await self._asker.scores(messages, list(shown))
            self._cache.put(key, {"scores": {name: [s.value, s.explanation] for name, s in scores.items()}})
        places = list(shown)
        return [Placed(score=scores[name], place=places.index(name)) for name in names]

    def _composed(self, shown: Mapping[str, Transcript], instructions: str) -> list[dict[str, str]]:
        """The prompt, within what the judge can read.

        Raises:
            JudgeError: that is too little.
        """
        asker, room = self._asker, self._max_tokens
        while True:
            try:
                messages = compose(shown, instructions=instructions, rubric=self.rubric, max_tokens=room)
            except JudgeError as error:
                if room == self._max_tokens:
                    raise
                raise JudgeError(
                    f"{len(shown)} attempts and the rubric do not fit into {asker.judge.name}: {error}"
                ) from error
            if (excess := asker.excess(messages)) <= 1:
                return messages
            room = int(room / excess * _SHRINK)


async def ruler_score_group(
    group: TrajectoryGroup, judge: Any, rubric: str | None = None, **options: Any
) -> TrajectoryGroup:
    """Score a group in place with a ``Ruler`` of these options, and return it. Siblings that failed keep their reason; a judge that
    fails leaves the others unscored with its own.

    Raises:
        InputError: see ``Ruler``; a judge that is the base model of a run, of which there is none here.
    """
    ruler = Ruler(judge, rubric, **options)
    check_lent(ruler)
    try:
        await score_group(ruler, group)
    finally:
        await ruler.close()
    return group


def _mean(scores: Sequence[Score], missing: str) -> Score:
    explanations = " | ".join(score.explanation for score in scores if score.explanation)
    return Score(value=fmean(score.value for score in scores), explanation=explanations + missing)


def _names(count: int, draw: Any) -> list[str]:
    """Names that say nothing about order or quality."""
    pairs = [first + second for first in _LETTERS for second in _LETTERS]
    return list(draw.sample(pairs, count))
