"""``art judge``: stored rollouts scored again by another judge or rubric, and what a judge is worth."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from art_core.errors import InputError
from art_core.judging.agreement import calibrate, read_gold
from art_core.judging.ruler import Ruler
from art_core.loop.config import TrainConfig
from art_core.loop.ending import release
from art_core.loop.lending import lent
from art_core.loop.rejudge import Rejudged, rejudge, stored_groups, write_judged
from art_core.loop.rundir import RunDir
from art_core.observe.formats import number, percent
from art_core.observe.progress import Progress
from art_core.observe.tables import print_table

from .judging import RULER, JudgeOptions, ruler

__all__ = ["app"]

app = App(name="judge", help="Score stored rollouts again, or measure a judge.")


@app.default
def judge_run(
    run: Path | None = None,
    /,
    *,
    step: int | None = None,
    calibrate_on: Annotated[Path | None, Parameter(name="--calibrate")] = None,
    out: Path | None = None,
    judge: Annotated[JudgeOptions, Parameter(name="*")] = JudgeOptions(),  # noqa: B008
    json_output: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> int:
    """Score the stored rollouts of a run, or of `art collect`, by a judge, and compare with the rewards they have. The run stays as it is.

    ```console
    $ art judge runs/support --judge openai/gpt-5-mini --rubric "The shortest right answer is the best."
    $ art judge --calibrate gold.jsonl --judge base/smollm2-135m --votes 4
    ```

    Parameters
    ----------
    run
        The directory of a run or of collected rollouts.
    step
        The training step whose rollouts are judged; the newest unless given.
    calibrate_on
        A JSONL file of groups whose ranking is known: `{"input": ..., "attempts": [{"text": ..., "score": ...}, ...]}`.
    out
        The file the scores are written to. Default: judged-STEP.jsonl in the run's directory.
    json_output
        Print one JSON object.
    """
    if (run is None) == (calibrate_on is None):
        raise InputError("give a run to judge, or --calibrate FILE.jsonl: one of the two")
    for name, value in {"--step": step, "--out": out}.items():
        if calibrate_on is not None and value is not None:
            raise InputError(f"{name} has no effect with --calibrate")
    if judge.check is not None:
        raise InputError("--check has no effect here: only the judge scores")
    made = ruler(**judge.record(RULER)["options"])
    assert isinstance(made, Ruler)
    shown = Progress(as_json=json_output)
    try:
        if run is not None:
            told = _judge(run, step, out, made, shown)
        else:
            assert calibrate_on is not None
            told = _calibrate(calibrate_on, made)
    finally:
        shown.close()
    if json_output:
        print(json.dumps(told, ensure_ascii=False))
    else:
        _show(told)
    return 0


def _judge(run: Path, step: int | None, out: Path | None, judge: Ruler, shown: Progress) -> dict[str, Any]:
    groups, name = stored_groups(run, step)
    path = out or run / f"judged-{name}.jsonl"
    judge.keep_in(run / "judge")
    shown.evaluating(f"judging {name}", len(groups))

    record = RunDir.open(run).read_record() if judge.borrower else {}

    async def go() -> tuple[list[Rejudged], Any]:
        try:
            async with lent(judge, record.get("base_model"), TrainConfig()):
                return await rejudge(groups, judge, lambda group: shown.rollout_done())
        finally:
            await release(judge)

    rollouts, agreed = asyncio.run(go())
    write_judged(path, rollouts)
    scored = [one for one in rollouts if one.trajectory.reward is not None]
    reasons = [one.trajectory.reward_reason or one.trajectory.error for one in rollouts if one not in scored]
    return {
        "run": str(run),
        "rollouts": len(rollouts),
        "scored": len(scored),
        "first_reason": reasons[0] if reasons else None,
        "agreement": agreed.share,
        "pairs": agreed.pairs,
        "judge": judge.account.to_dict(),
        "file": str(path),
    }


def _calibrate(path: Path, judge: Ruler) -> dict[str, Any]:
    gold = read_gold(path)

    async def go() -> dict[str, Any]:
        try:
            async with lent(judge, None, TrainConfig()):
                return (await calibrate(judge, gold)).to_dict()
        finally:
            await release(judge)

    found = asyncio.run(go())
    agreed = found.pop("agreement")
    return {
        "gold": str(path),
        **found,
        "agreement": agreed["share"],
        "pairs": agreed["pairs"],
        "judge": judge.account.to_dict(),
    }


_ROWS: Mapping[str, tuple[str, Any]] = {
    "rollouts": ("rollouts", number),
    "scored": ("scored", number),
    "first_reason": ("first reason for none", lambda value: value or "–"),
    "groups": ("groups scored", number),
    "unscored": ("groups without a score", number),
    "agreement": ("pairs ordered the same way", percent),
    "pairs": ("pairs compared", number),
    "position_bias": ("first place over last", number),
    "spread": ("best over worst of a group", number),
    "tokens_per_group": ("tokens a group", lambda value: number(value, 0)),
    "usd_per_group": ("USD a group", lambda value: number(value, 5)),
    "file": ("written to", str),
}


def _show(told: Mapping[str, Any]) -> None:
    rows = [[label, show(told[name])] for name, (label, show) in _ROWS.items() if name in told]
    account = told["judge"]
    rows += [["calls of the judge", number(account["calls"])], ["known before", number(account["cached"])]]
    if account["usd"] is not None:
        rows.append(["USD", number(account["usd"], 4)])
    print_table("The judge", ["", ""], [rows])
