import math

import pytest

from art_core.errors import InputError, NotTrainable
from art_core.messages import Message
from art_core.scenario import Scenario
from art_core.trajectory.graph import TokenGraph, Turn
from art_core.trajectory.trajectory import Reward, Trajectory, TrajectoryGroup

TASK = Scenario("s1", "What is 1+1?")


def turn(turn_id: str, text: str, *, parent: str | None = None, finish_reason: str = "stop") -> Turn:
    return Turn(
        id=turn_id,
        parent=parent,
        parent_len=5 if parent else 0,
        context_ids=(1, 2),
        completion_ids=(3, 4, 5),
        logprobs=(-0.5, -0.25, -0.125),
        finish_reason=finish_reason,  # type: ignore[arg-type]
        parent_messages=2 if parent else 0,
        messages=(Message(role="user", content=f"ask {text}"),),
        reply=Message(role="assistant", content=text),
    )


def trajectory(*turns: Turn, **fields) -> Trajectory:
    return Trajectory(scenario=TASK, rollout_id="r1", graph=TokenGraph(turns), **fields)


def test_turns_messages_and_tokens() -> None:
    t = trajectory(turn("t0", "one"), turn("t1", "two", parent="t0"))
    assert [x.id for x in t.turns] == ["t0", "t1"]
    assert [m.content for m in t.messages] == ["ask one", "one", "ask two", "two"]
    assert t.sampled_tokens == 6


def test_an_empty_trajectory_has_no_messages_and_is_not_trainable() -> None:
    t = trajectory()
    assert (t.turns, t.messages, t.sampled_tokens, t.truncated) == ([], [], 0, False)
    with pytest.raises(NotTrainable, match="rollout 'r1' has no turns"):
        t.samples()


def test_samples_train_what_was_sampled() -> None:
    (row,) = trajectory(turn("t0", "one")).samples()
    assert row.token_ids.tolist() == [1, 2, 3, 4, 5]
    assert row.mask.tolist() == [False, False, True, True, True]
    assert row.logprobs.tolist() == [0.0, 0.0, -0.5, -0.25, -0.125]
    assert row.rollout_id == "r1"


def test_a_cut_turn_makes_it_truncated() -> None:
    assert trajectory(turn("t0", "one", finish_reason="length")).truncated


@pytest.mark.parametrize(
    ("stop_reason", "failed"),
    [
        ("error", True),
        ("cancelled", True),
        ("finished", False),
        ("max_turns", False),
        ("timeout", False),
        (None, False),
    ],
)
def test_only_errors_and_cancellations_are_failures(stop_reason, failed) -> None:
    assert trajectory(stop_reason=stop_reason).failed is failed


def test_scoring_sets_everything_and_unscoring_clears_it() -> None:
    t = trajectory()
    t.score(Reward(1, success=True, parts={"format": 1}, reason="right"))
    assert (t.reward, t.success, t.reward_parts, t.reward_reason) == (1.0, True, {"format": 1.0}, "right")
    t.unscore("the judge is down")
    assert (t.reward, t.success, t.reward_parts, t.reward_reason) == (None, None, {}, "the judge is down")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, None, "1"])
def test_a_reward_must_be_a_finite_number(value) -> None:
    with pytest.raises(InputError, match=f"a reward must be a finite number, got {value!r}"):
        Reward(value)


def test_a_group_lists_its_rewards_in_order() -> None:
    group = TrajectoryGroup(scenario=TASK, trajectories=[trajectory(), trajectory()])
    group.trajectories[1].score(Reward(0.0))
    assert group.rewards == [None, 0.0]
    assert (len(group), list(group)) == (2, group.trajectories)
