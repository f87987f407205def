from __future__ import annotations

import pytest

from art_core.inference.scripted import ScriptedPolicy
from art_core.loop.evaluate import Evaluation, Outcome, evaluate, gain, outcomes_of

from .fake import SCENARIOS, agent, reward


def evaluation(outcomes, label="before"):
    made = tuple(Outcome(scenario=name, reward=value, success=success) for name, value, success in outcomes)
    return Evaluation(split="test", label=label, step=0, outcomes=made, seconds=1.0)


def test_a_missing_score_is_counted_apart():
    part = evaluation([("a", 1.0, True), ("b", 0.0, False), ("c", None, None)])
    assert (part.reward, part.success, part.n, part.missing) == (0.5, 0.5, 2, 1)


def test_success_has_a_wilson_interval():
    part = evaluation([(str(i), float(i < 5), i < 5) for i in range(10)])
    assert part.method == "wilson"
    assert part.ci95 == pytest.approx((0.2366, 0.7634), abs=5e-5)


def test_without_success_the_reward_is_what_is_measured():
    part = evaluation([("a", 0.25, None), ("b", 0.75, None)])
    assert (part.measure, part.figure, part.success, part.method) == ("reward", 0.5, None, "bootstrap-percentile")


def test_nothing_scored_has_no_figures():
    part = evaluation([("a", None, None)])
    assert (part.reward, part.success, part.ci95, part.n) == (None, None, None, 0)


def test_gain_pairs_the_scenarios_scored_both_times():
    before = evaluation([("a", 0.0, False), ("b", 0.0, False), ("c", None, None)])
    after = evaluation([("c", 1.0, True), ("b", 0.0, False), ("a", 1.0, True)], "after")
    found = gain(before, after)
    assert (found.measure, found.difference, found.n, found.method) == ("success", 0.5, 2, "newcombe-paired")


def test_gain_of_rewards_is_a_paired_bootstrap():
    before = evaluation([("a", 0.0, None), ("b", 0.5, None)])
    after = evaluation([("a", 0.25, None), ("b", 0.75, None)], "after")
    found = gain(before, after)
    assert (found.difference, found.ci95, found.method) == (0.25, (0.25, 0.25), "paired-bootstrap-percentile")


def test_gain_without_pairs_is_unknown():
    found = gain(evaluation([("a", 1.0, True)]), evaluation([("b", 1.0, True)], "after"))
    assert (found.difference, found.ci95, found.n) == (None, None, 0)


async def test_one_rollout_per_scenario_in_order():
    policy = ScriptedPolicy(lambda messages, tools: "yes" if messages[-1].text == "question 1" else "no")
    rollouts = await evaluate(agent, SCENARIOS[:3], policy, reward=reward)
    assert [(o.scenario, o.success) for o in outcomes_of(rollouts)] == [("s0", False), ("s1", True), ("s2", False)]
