import asyncio
import contextvars
import math
import threading

import numpy as np
import pytest

from art_core.errors import JudgeError
from art_core.rewards.score import score_group, score_trajectory
from art_core.scenario import Scenario
from art_core.trajectory.trajectory import Reward, Trajectory, TrajectoryGroup

TASK = Scenario("s1", "What is 1+1?", expected="2")


def trajectory(number: int = 0, stop_reason: str = "finished") -> Trajectory:
    return Trajectory(scenario=TASK, rollout_id=f"r{number}", stop_reason=stop_reason)


def group(*stop_reasons: str) -> TrajectoryGroup:
    return TrajectoryGroup(scenario=TASK, trajectories=[trajectory(i, stop) for i, stop in enumerate(stop_reasons)])


async def scored(value) -> Trajectory:
    t = trajectory()
    await score_trajectory(lambda trajectory, scenario: value, t)
    return t


@pytest.mark.parametrize("value", [1, 0.25, -3.5, np.float32(0.5), np.int64(2)])
async def test_numbers_are_rewards(value) -> None:
    t = await scored(value)
    assert t.reward == float(value)
    assert type(t.reward) is float


async def test_a_reward_object_is_kept_whole() -> None:
    t = await scored(Reward(0.5, success=True, parts={"format": 1}, reason="close"))
    assert (t.reward, t.success, t.reward_parts, t.reward_reason) == (0.5, True, {"format": 1.0}, "close")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (True, "returned True, which is not a number"),
        (None, "returned None, which is not a number"),
        ("1.0", "returned '1.0', which is not a number"),
        (math.nan, "returned nan, which is not finite"),
        (math.inf, "returned inf, which is not finite"),
        ([1.0], r"returned [1.0], which is not a number"),
        (Reward(1.0, parts={"format": "good"}), "could not convert string to float: 'good'"),  # type: ignore[dict-item]
    ],
)
async def test_what_is_not_a_reward_is_missing_with_the_reason(value, reason) -> None:
    t = await scored(value)
    assert (t.reward, t.success) == (None, None)
    assert t.reward_reason.startswith("reward: <lambda> ")
    assert reason in t.reward_reason


async def test_an_async_reward_is_awaited() -> None:
    async def reward(trajectory, scenario):
        await asyncio.sleep(0)
        return 1.0 if scenario.expected == "2" else 0.0

    t = trajectory()
    await score_trajectory(reward, t)
    assert t.reward == 1.0


async def test_a_sync_reward_runs_off_the_loop_with_the_context() -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable")
    variable.set(7)
    seen = []

    def reward(trajectory, scenario):
        seen.append((threading.get_ident(), variable.get()))
        return 0

    await score_trajectory(reward, trajectory())
    assert seen[0][0] != threading.get_ident()
    assert seen[0][1] == 7


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KeyError("answer"), "reward: reward: KeyError: 'answer'"),
        (TimeoutError("slow database"), "reward: reward: TimeoutError: slow database"),
        (JudgeError("openai/gpt-5-mini gave no scores"), "judge: openai/gpt-5-mini gave no scores"),
    ],
)
async def test_a_reward_that_raises_is_missing_with_the_reason(error, reason) -> None:
    def reward(trajectory, scenario):
        raise error

    t = trajectory()
    await score_trajectory(reward, t)
    assert (t.reward, t.reward_reason) == (None, reason)


async def test_a_reward_that_takes_too_long_is_missing() -> None:
    async def slow(trajectory, scenario):
        await asyncio.sleep(60)

    t = trajectory()
    await score_trajectory(slow, t, seconds=0.05)
    assert (t.reward, t.reward_reason) == (None, "reward: slow gave no answer within 0.05 s")
    assert t.metrics == {"time_limits": 1}


async def test_a_new_verdict_replaces_the_old_one() -> None:
    t = await scored(Reward(1.0, success=True, parts={"x": 1.0}))
    await score_trajectory(lambda trajectory, scenario: math.nan, t)
    assert (t.reward, t.success, t.reward_parts) == (None, None, {})


class Judge:
    def __init__(self, verdict) -> None:
        self.verdict = verdict

    async def score_group(self, group):
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return self.verdict


async def test_a_group_verdict_is_given_in_order() -> None:
    g = group("finished", "max_turns")
    await score_group(Judge([Reward(0.25), Reward(0.75)]), g)
    assert g.rewards == [0.25, 0.75]


async def test_none_is_a_missing_score_with_a_reason() -> None:
    g = group("finished", "finished")
    await score_group(Judge([None, Reward(0.0)]), g)
    assert g.rewards == [None, 0.0]
    assert g.trajectories[0].reward_reason == "reward: Judge gave no score"


async def test_a_judge_may_leave_its_own_reason_for_a_missing_score() -> None:
    class Explaining(Judge):
        async def score_group(self, group):
            group.trajectories[0].unscore("judge: two ids were swapped")
            return [None]

    g = group("finished")
    await score_group(Explaining([]), g)
    assert g.trajectories[0].reward_reason == "judge: two ids were swapped"


@pytest.mark.parametrize(
    ("verdict", "reason"),
    [
        ([Reward(1.0)], "reward: Judge returned 1 rewards for 2 rollouts"),
        (None, "reward: Judge returned None for 2 rollouts"),
        (ValueError("no JSON"), "reward: Judge: ValueError: no JSON"),
        (JudgeError("no answer"), "judge: no answer"),
    ],
)
async def test_a_verdict_that_cannot_be_used_unscores_the_whole_group(verdict, reason) -> None:
    g = group("finished", "finished")
    await score_group(Judge(verdict), g)
    assert g.rewards == [None, None]
    assert [t.reward_reason for t in g] == [reason, reason]


async def test_one_bad_entry_is_missing_and_the_others_count() -> None:
    g = group("finished", "finished")
    await score_group(Judge([0.5, Reward(1.0)]), g)
    assert g.rewards == [None, 1.0]
    assert g.trajectories[0].reward_reason == "reward: Judge returned 0.5, which is not a Reward"


async def test_failed_siblings_are_neither_shown_nor_touched() -> None:
    g = group("error", "finished")
    g.trajectories[0].unscore("not scored: the rollout failed")
    await score_group(Judge([Reward(1.0)]), g)
    assert g.rewards == [None, 1.0]
    assert g.trajectories[0].reward_reason == "not scored: the rollout failed"


async def test_a_group_of_failures_is_not_judged() -> None:
    g = group("error", "cancelled")
    await score_group(Judge(AssertionError("asked")), g)
    assert [t.reward_reason for t in g] == ["", ""]
