"""Collecting: every rollout is kept, what is there is not asked for again, and what failed is told and made again."""

from __future__ import annotations

import pytest

import art_core as art
from art_core.loop.collect import acollect, collected, open_collection
from art_core.messages import Message
from art_core.trajectory.trajectory import Reward

SCENARIOS = [art.Scenario(f"s{number}", f"question {number}") for number in range(3)]
RECORD = {"model": "m", "agent": {"kind": "python", "function": "a:b"}, "seed": 0}


async def agent(scenario, session):
    return (await session.turn([Message(role="user", content=scenario.input)])).reply.text


def policy(asked, answer=lambda text: "yes"):
    def reply(messages, tools):
        asked.append(messages[-1].text)
        return answer(messages[-1].text)

    return art.ScriptedPolicy(reply)


def fails_on_one(text):
    if text == "question 1":
        raise RuntimeError("overloaded")
    return "yes"


def reward(trajectory, scenario):
    return Reward(1.0, success=trajectory.output == "yes")


async def test_every_rollout_is_kept_scored_and_counted(tmp_path):
    collection = open_collection(tmp_path / "c", RECORD)
    summary = await acollect(agent, SCENARIOS, policy([]), collection, reward=reward, siblings=2)
    rollouts = collected(tmp_path / "c")
    assert sorted(one.rollout_id for one in rollouts) == ["s0-0", "s0-1", "s1-0", "s1-1", "s2-0", "s2-1"]
    assert (summary["rollouts"], summary["failed"], summary["success"], summary["model_calls"]) == (6, 0, 1.0, 6)
    assert summary["tokens"]["output"] == sum(one.sampled_tokens for one in rollouts)


async def test_what_is_there_is_not_asked_for_again(tmp_path):
    asked = []
    await acollect(agent, SCENARIOS[:2], policy(asked), open_collection(tmp_path / "c", RECORD))
    summary = await acollect(agent, SCENARIOS, policy(asked), open_collection(tmp_path / "c", RECORD), siblings=1)
    assert sorted(asked) == ["question 0", "question 1", "question 2"]
    assert summary["rollouts"] == 3


async def test_a_failure_is_recorded_and_made_again(tmp_path):
    first = open_collection(tmp_path / "c", RECORD)
    summary = await acollect(agent, SCENARIOS, policy([], fails_on_one), first, reward=reward)
    assert (summary["failed"], summary["first_error"]) == (1, "provider: RuntimeError: overloaded")
    asked, again = [], open_collection(tmp_path / "c", RECORD)
    assert (len(again.known), again.failed) == (2, 1)
    summary = await acollect(agent, SCENARIOS, policy(asked), again, reward=reward)
    assert (asked, summary["failed"], summary["rollouts"]) == (["question 1"], 0, 3)


async def test_a_line_that_a_crash_cut_is_asked_for_again(tmp_path):
    await acollect(agent, SCENARIOS, policy([]), open_collection(tmp_path / "c", RECORD), concurrency=1)
    path = tmp_path / "c" / "trajectories.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    asked = []
    summary = await acollect(agent, SCENARIOS, policy(asked), open_collection(tmp_path / "c", RECORD))
    assert (asked, summary["rollouts"]) == (["question 2"], 3)


async def test_a_reward_that_compares_is_asked_when_all_siblings_are_there(tmp_path):
    class Compare:
        async def score_group(self, group):
            return [Reward(float(index)) for index, _ in enumerate(group)]

    collection = open_collection(tmp_path / "c", RECORD)
    await acollect(agent, SCENARIOS[:1], policy([]), collection, reward=Compare(), siblings=2)
    assert {one.rollout_id: one.reward for one in collected(tmp_path / "c")} == {"s0-0": 0.0, "s0-1": 1.0}


@pytest.mark.parametrize("name", ["model", "agent", "reward", "seed"])
def test_a_directory_that_was_collected_in_another_way_is_refused(tmp_path, name):
    open_collection(tmp_path / "c", RECORD)
    with pytest.raises(art.InputError, match=rf"was collected with {name} = .*, not .*; give another --out"):
        open_collection(tmp_path / "c", {**RECORD, name: "other"})


def test_the_directory_of_a_run_is_refused(tmp_path):
    (tmp_path / "run.toml").write_text('base_model = "m"\n')
    with pytest.raises(art.InputError, match="is the directory of a run, not of collected rollouts"):
        open_collection(tmp_path, RECORD)


async def test_a_scenario_that_has_changed_is_refused(tmp_path):
    await acollect(agent, SCENARIOS, policy([]), open_collection(tmp_path / "c", RECORD))
    changed = [art.Scenario("s0", "something else")]
    with pytest.raises(art.InputError, match="scenario 's0' was collected with another input, 'question 0'"):
        await acollect(agent, changed, policy([]), open_collection(tmp_path / "c", RECORD))
