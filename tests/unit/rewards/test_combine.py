"""A judge and a function together: the function sees the open environment, the judge what the function lets through."""

from __future__ import annotations

import pytest

import art_core as art
from art_core.errors import InputError
from tests.unit.judging.rollouts import attempts_in, by_words

WORDS = {"noon": 1.0, "late": 0.25}
SCENARIO = art.Scenario("s", "What time is it?")


async def agent(scenario, session):
    return (await session.chat([{"role": "user", "content": scenario.input}])).choices[0].message.content


def polite(trajectory, scenario):
    good = "please" in trajectory.output
    return art.Reward(float(good), success=good, parts={"words": len(trajectory.output.split())})


async def scored(by, *replies, judge=None, function=polite, **options):
    left = list(replies)
    reward = art.Combined(art.Ruler(judge or by_words(WORDS)), function, by=by, **options)
    groups = await art.gather(
        agent,
        [SCENARIO],
        art.ScriptedPolicy(lambda m, t: left.pop(0)),
        reward=reward,
        group_size=len(replies),
        concurrency=1,
    )
    return groups[0].trajectories


async def test_a_sum_weighs_both():
    one, two = await scored("sum", "noon, please", "late", weight=0.75)
    assert (one.reward, two.reward) == (1.0, 0.1875)
    assert (one.success, two.success) == (True, False)
    assert one.reward_parts == {"words": 2.0, "check": 1.0, "judge": 1.0}


async def test_a_gate_lets_only_those_be_compared_that_pass():
    shown = []

    def judge(messages):
        shown.append(attempts_in(messages))
        return by_words(WORDS)(messages)

    one, two, three = await scored("gate", "noon, please", "noon", "late, please", judge=judge)
    assert [t.reward for t in (one, two, three)] == [1.0, 0.0, 0.25]
    assert two.reward_reason.startswith("did not pass the check")
    assert [len(attempts) for attempts in shown] == [2]


async def test_the_only_one_that_passes_is_the_best_and_nobody_is_asked():
    one, two = await scored("gate", "noon, please", "late", judge=lambda messages: pytest.fail("asked"))
    assert (one.reward, two.reward) == (1.0, 0.0)


async def test_beside_only_the_judge_counts_and_the_function_says_what_a_success_is():
    one, two = await scored("beside", "noon", "late, please")
    assert [(t.reward, t.success, t.reward_parts["check"]) for t in (one, two)] == [
        (1.0, False, 0.0),
        (0.25, True, 1.0),
    ]


async def test_a_function_that_fails_leaves_its_rollout_without_a_score():
    def fails(trajectory, scenario):
        if trajectory.output == "noon":
            raise ValueError("no idea")
        return 1.0

    one, two, three = await scored("sum", "noon", "late", "noon, please", function=fails)
    assert (one.reward, one.reward_reason) == (None, "reward: fails: ValueError: no idea")
    assert (two.reward, three.reward) == (0.625, 1.0)


async def test_a_judge_that_fails_leaves_all_that_it_was_asked_about_without_one():
    found = await scored("sum", "noon", "late", judge=lambda messages: "no")
    assert [t.reward for t in found] == [None, None]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "max"}, "by sum, gate or beside, not by 'max'"),
        ({"weight": 2}, "the weight of a judge is from 0 to 1, got 2"),
    ],
)
def test_what_cannot_be_combined_is_told(options, message):
    with pytest.raises(InputError, match=message):
        art.Combined(art.Ruler(by_words(WORDS)), polite, **options)


@pytest.mark.parametrize(
    ("by", "reward"),
    [
        ("beside", "judge, which graded each rollout by itself, by another prompt than it compared siblings with"),
        (
            "gate",
            "polite, and judge, which graded each rollout by itself, by another prompt than it compared siblings with",
        ),
    ],
)
def test_what_an_evaluation_is_measured_by_is_told(by, reward):
    def judge(messages):
        return ""

    told = art.Combined(art.Ruler(judge), polite, by=by).measured_by
    assert told == {"success": "polite, in which the judge has no part", "reward": reward}
