from __future__ import annotations

import dataclasses

import pytest

from art_core.errors import RewardError
from art_core.loop.batch import make_batch
from art_core.messages import Message
from art_core.scenario import Scenario
from art_core.trajectory.graph import TokenGraph, Turn
from art_core.trajectory.trajectory import Reward, Trajectory, TrajectoryGroup

SCENARIO = Scenario("s", "question")


def rollout(name, reward=None, *, tokens=3, not_trainable=None, error=None):
    turn = Turn(
        id="t0",
        context_ids=(1, 2),
        completion_ids=(5,) * tokens,
        logprobs=(-0.5,) * tokens,
        not_trainable=not_trainable,
        reply=Message(role="assistant"),
    )
    made = Trajectory(scenario=SCENARIO, rollout_id=name, graph=TokenGraph([turn]), error=error)
    made.stop_reason = "error" if error else "finished"
    if reward is not None:
        made.score(Reward(reward, success=reward > 0))
    else:
        made.unscore("no verdict")
    return made


def group(*rollouts):
    return TrajectoryGroup(scenario=SCENARIO, trajectories=list(rollouts))


def test_each_rollout_has_one_fate():
    mixed = group(
        rollout("good", 1.0),
        rollout("bad", 0.0),
        rollout("silent"),
        rollout("crashed", error="agent: boom"),
        rollout("greedy", 1.0, not_trainable="sampled greedily"),
        rollout("long", 0.0, tokens=50),
    )
    batch = make_batch([mixed, group(rollout("same-1", 1.0), rollout("same-2", 1.0))], max_row_tokens=20)
    assert batch.fates == {
        "good": "trained",
        "bad": "trained",
        "silent": "unscored",
        "crashed": "failed",
        "greedy": "not_trainable",
        "long": "over_long",
        "same-1": "no_spread",
        "same-2": "no_spread",
    }
    assert batch.ledger["sampled"].tokens == batch.ledger.total(tuple(set(batch.fates.values()))).tokens == 71


def test_turns_that_do_not_extend_the_ids_are_counted_by_their_reason():
    """T13: a fork is never silent, whatever becomes of its rollout."""
    edited = rollout("failed", error="agent: boom")
    for number in (1, 2):
        edited.graph.add(
            Turn(
                id=f"t{number}",
                context_ids=(9,),
                completion_ids=(5,),
                logprobs=(-0.5,),
                fork="the history was edited",
                reply=Message(role="assistant"),
            )
        )
    batch = make_batch([group(rollout("a", 1.0), edited)])
    assert batch.figures()["forks"] == {"the history was edited": 2}


def test_rows_carry_the_advantage_of_their_rollout():
    batch = make_batch([group(rollout("a", 1.0), rollout("b", 0.0))], scale="none")
    assert [sample.rollout_id for sample in batch.samples] == ["a", "b"]
    assert batch.advantages == [0.5, -0.5]


def test_a_missing_reward_moves_nobody():
    with_gap = make_batch([group(rollout("a", 1.0), rollout("gap"), rollout("b", 0.0))])
    without = make_batch([group(rollout("a", 1.0), rollout("b", 0.0))])
    assert with_gap.advantages == without.advantages


def test_the_score_of_a_failed_rollout_does_not_count():
    failed = rollout("failed", 9.0, error="agent: boom")
    batch = make_batch([group(rollout("a", 1.0), rollout("b", 0.0), failed)])
    assert batch.figures() == {"reward_mean": 0.5, "reward_std": 0.5, "success": 0.5, "reward_parts": {}, "forks": {}}


def test_equal_rewards_give_nothing_to_train():
    batch = make_batch([group(rollout("a", 1.0), rollout("b", 1.0))])
    assert (batch.samples, batch.advantages) == ([], [])


def test_no_score_at_all_names_the_first_reason():
    with pytest.raises(
        RewardError, match="none of the 2 rollouts of this step has a score; the first reason: no verdict"
    ):
        make_batch([group(rollout("a"), rollout("b"))])


def test_the_siblings_that_differ_most_are_trained_and_compared_with_each_other():
    siblings = [rollout(name, reward) for name, reward in (("a", 0.5), ("b", 1.0), ("c", 0.4), ("d", 0.0))]
    batch = make_batch([group(*siblings)], trained_per_group=2)
    assert batch.fates == {"a": "not_selected", "b": "trained", "c": "not_selected", "d": "trained"}
    assert sorted(batch.advantages) == pytest.approx([-1.0, 1.0], abs=1e-4)
    assert batch.ledger["not_selected"].rollouts == 2


def test_a_rare_success_is_always_among_the_selected():
    siblings = [rollout(f"r{number}", 1.0 if number == 5 else 0.1) for number in range(8)]
    batch = make_batch([group(*siblings)], trained_per_group=4)
    assert batch.fates["r5"] == "trained"
    assert sum(fate == "trained" for fate in batch.fates.values()) == 4


def test_a_missing_reward_is_not_selected_away():
    batch = make_batch([group(rollout("a", 0.0), rollout("b", None), rollout("c", 1.0))], trained_per_group=2)
    assert batch.fates == {"a": "trained", "b": "unscored", "c": "trained"}


def test_epsilon_makes_little_of_small_differences():
    batch = make_batch([group(rollout("a", 0.5), rollout("b", 0.52))], epsilon=0.1)
    assert batch.advantages == pytest.approx([-0.01 / 0.11, 0.01 / 0.11])


def test_tokens_that_were_sampled_again_are_superseded_and_not_trained():
    retried, gone = rollout("retried", 1.0), rollout("gone", 0.0)
    again = dataclasses.replace(retried.turns[0], id="t1", completion_ids=(7,) * 4, logprobs=(-0.5,) * 4)
    retried.graph.add(again)
    retried.superseded, gone.superseded = {"t0"}, {"t0"}
    batch = make_batch([group(retried, gone, rollout("other", 0.5))])
    assert batch.fates == {"retried": "trained", "gone": "superseded", "other": "trained"}
    assert [row.token_ids[row.mask].tolist() for row in batch.samples] == [[7, 7, 7, 7], [5, 5, 5]]
    tokens = batch.ledger.to_dict()["tokens"]
    assert (tokens["sampled"], tokens["trained"], tokens["superseded"], tokens["not_trainable"]) == (13, 7, 6, 0)


def test_superseded_tokens_of_a_failed_rollout_are_superseded():
    failed = rollout("failed", error="agent: boom")
    failed.superseded = {"t0"}
    batch = make_batch([group(failed, rollout("one", 1.0), rollout("two", 0.0))])
    assert (batch.ledger["failed"].rollouts, batch.ledger["failed"].tokens) == (1, 0)
    assert (batch.ledger["superseded"].rollouts, batch.ledger["superseded"].tokens) == (0, 3)
