"""A run whose reward is a judge: it learns, says what the judge cost, pays for nothing twice, and stops while it can pay for its end."""

from __future__ import annotations

import asyncio
import json

import pytest

import art_core as art
from art_core.loop.run import atrain
from art_core.observe.metrics import read_metrics
from tests.servers.chat_server import chat_server
from tests.unit.loop.fake import SCENARIOS, FakeBackend, agent, config, quiet
from tests.unit.loop.fake import reward as check

from .rollouts import by_words

YES = by_words({"[assistant]\nyes": 1.0, "[assistant]\nno": 0.0})


async def run(tmp_path, reward, backend=None, **more):
    settings = None if "resume" in more else config(tmp_path, **more)
    return await atrain(
        agent,
        None if "resume" in more else SCENARIOS,
        reward,
        backend=backend or FakeBackend(),
        config=settings,
        resume=more.get("resume"),
        progress=quiet(),
    )


async def test_it_learns_from_a_judge_and_tells_what_was_asked(tmp_path):
    result = await run(tmp_path, art.Ruler(YES, success_at=0.5), steps=8)
    assert result.before.success < result.after.success == 1.0
    rows = [row for row in read_metrics(result.run_dir / "metrics.jsonl") if row["kind"] in ("train", "eval")]
    told = result.summary["judge"]
    assert told["calls"] == sum(row["judge"]["calls"] for row in rows) > 0
    assert told["unscored"] == told["failed"] == 0
    assert told["calls"] + told["cached"] == told["groups"]


async def test_a_judge_that_fails_now_and_then_loses_nothing_and_stops_nothing(tmp_path):
    asked = []

    def unreliable(messages):
        asked.append(messages)
        return "I would rather not." if len(asked) % 3 == 0 else YES(messages)

    result = await run(tmp_path, art.Ruler(unreliable, attempts=1), steps=3)
    ledger = result.summary["ledger"]
    assert result.summary["steps"] == 3
    assert ledger["rollouts"]["unscored"] > 0
    assert ledger["rollouts"]["sampled"] == 36
    stored = [
        json.loads(line) for line in (result.run_dir / "trajectories" / "step-000001.jsonl").read_text().splitlines()
    ]
    assert {one["reward_reason"] for one in stored if one["reward"] is None} == {
        "judge: unreliable gave no usable reply in 1 attempts: the reply holds no JSON that can be read: I would rather not."
    }


async def test_a_slow_judge_is_waited_for_so_long_and_no_longer(tmp_path):
    asked = []

    async def slow(messages):
        asked.append(messages)
        await asyncio.sleep(30 if len(asked) % 3 == 0 else 0)
        return YES(messages)

    result = await run(tmp_path, art.Ruler(slow, attempts=1, seconds=0.2), steps=3)
    assert result.summary["steps"] == 3
    unscored = result.summary["ledger"]["rollouts"]["unscored"]
    assert unscored > 0 == unscored % 4, "whole groups"
    stored = (result.run_dir / "trajectories" / "step-000001.jsonl").read_text()
    assert "judge: slow: no answer within 0.2 s" in stored


async def test_a_lying_judge_is_found_out_by_the_check_beside_it(tmp_path):
    lies = by_words({"[assistant]\nyes": 0.0, "[assistant]\nno": 1.0})
    reward = art.Combined(art.Ruler(lies), check, by="beside")
    result = await run(tmp_path, reward, FakeBackend(skill=0.7), steps=8)
    assert result.after.reward > result.before.reward
    assert result.after.success < result.before.success
    assert result.summary["gain"]["difference"] < 0
    assert result.summary["measured_by"]["success"] == "reward, in which the judge has no part"


async def test_a_run_that_goes_on_pays_for_nothing_twice(tmp_path):
    with chat_server(lambda body: YES(body["messages"])) as server:
        first = await run(tmp_path, art.Ruler(f"judge@{server.url}", price=(1, 1)), steps=2)
        asked = len(server.requests)
        (first.run_dir / "summary.json").unlink()
        await run(tmp_path, art.Ruler(f"judge@{server.url}", price=(1, 1)), resume=first.run_dir)
        assert len(server.requests) == asked


async def test_it_stops_while_the_last_evaluation_can_be_paid(tmp_path):
    with chat_server(lambda body: YES(body["messages"])) as server:
        ruler = art.Ruler(f"judge@{server.url}", price=(1, 10_000), budget=1.5, max_reply_tokens=10)
        result = await run(tmp_path, ruler, FakeBackend(rate=0.02), steps=100)
    assert result.stop_reason == "budget"
    assert result.after.n == 8
    assert result.summary["judge"]["usd"] == pytest.approx(ruler.account.usd)
    assert 0 < result.summary["judge"]["usd"] <= 1.5
