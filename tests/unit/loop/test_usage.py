"""Tokens, cost and latency of rollouts; what is not known is not made up."""

from __future__ import annotations

import pytest

import art_core as art
from art_core.loop.usage import cost_of, parse_prices, usage_of
from art_core.messages import Message
from art_core.rewards.account import Price

PRICES = {"openai/gpt-5-mini": Price(0.25, 2.0)}


def rollout(*tokens, model="gpt-5-mini", seconds=1.0):
    trajectory = art.Trajectory(scenario=art.Scenario("s", "q"), rollout_id="r", seconds=seconds)
    for asked, answered in tokens:
        trajectory.model_calls.append(
            art.ModelCall(
                messages=(Message(role="user", content="q"),),
                reply=Message(role="assistant", content="a"),
                input_tokens=asked,
                output_tokens=answered,
                metadata={"model": model},
            )
        )
    return trajectory


def test_calls_tokens_and_seconds_of_a_task():
    used = usage_of([rollout((100, 10), (200, 20), seconds=1.0), rollout((300, 30), seconds=3.0)])
    assert used == {
        "model_calls": 3,
        "failed_calls": 0,
        "tokens": {"input": 600, "output": 60},
        "latency_s": {"p50": 2.0, "p95": 2.9},
    }


def test_a_thousand_tasks_cost_what_their_tokens_cost():
    rollouts = [rollout((1000, 100)), rollout((3000, 300))]
    assert cost_of(rollouts, PRICES) == pytest.approx(1000 * (4000 * 0.25 + 400 * 2.0) / 1e6 / 2)


@pytest.mark.parametrize(
    "trajectory", [rollout((10, 1), model="another"), rollout((10, None)), rollout((None, 1))], ids="abc"
)
def test_without_a_price_or_a_count_there_is_no_cost(trajectory):
    assert cost_of([trajectory], PRICES) is None


def test_tokens_that_a_call_does_not_tell_are_unknown():
    assert usage_of([rollout((10, None), (10, 1))])["tokens"] == {"input": 20, "output": None}


def test_a_call_that_failed_is_counted_as_that_and_costs_nothing():
    trajectory = rollout((100, 10))
    trajectory.model_calls.append(art.ModelCall(messages=(), reply=None, error="500", metadata={"model": "another"}))
    used = usage_of([trajectory])
    assert (used["model_calls"], used["failed_calls"], used["tokens"]["input"]) == (2, 1, 100)
    assert cost_of([trajectory], PRICES) == pytest.approx(0.045)


async def test_the_tokens_of_the_model_in_training_are_its_ids():
    async def agent(scenario, session):
        await session.chat([{"role": "user", "content": "q"}])

    trajectory = await art.rollout(agent, art.Scenario("s", "q"), art.ScriptedPolicy(["four"]))
    asked = len(trajectory.turns[0].context_ids)
    assert usage_of([trajectory])["tokens"] == {"input": asked, "output": 5}
    assert cost_of([trajectory], {"trained": Price(1.0, 0.0)}) == pytest.approx(asked / 1000)


@pytest.mark.parametrize("text", ["gpt=1", "gpt=1,2,3", "gpt=a,b", "=1,2", "gpt=-1,2", "gpt=1,nan"])
def test_a_price_of_another_form_is_told(text):
    with pytest.raises(art.InputError, match=r"is not of the form MODEL=IN,OUT: US dollars for a million tokens"):
        parse_prices([text])
