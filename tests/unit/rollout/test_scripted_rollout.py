"""Rollouts over the public double: real prompts, bridges and ids, through every door of the session."""

import asyncio
import json

import pytest

from art_core.errors import LimitReached
from art_core.inference.scripted import ScriptedPolicy
from art_core.rollout.group import gather
from art_core.rollout.limits import Limits
from art_core.rollout.runner import rollout
from art_core.scenario import Scenario
from art_core.trajectory.store import from_record, to_record
from art_core.trajectory.trajectory import Trajectory

from .doubles import ADD

TASK = Scenario("s1", "What is 1+1?", expected="2")


def conversation(answer) -> list:
    """The second request of a tool conversation: the SDK's own message, echoed, and the tool's answer."""
    call = answer.tool_calls[0]
    return [answer, {"role": "tool", "tool_call_id": call.id, "content": "2"}]


async def through_chat(scenario, session):
    messages = [{"role": "user", "content": scenario.input}]
    answer = (await session.chat(messages, tools=[ADD])).choices[0].message
    return (await session.chat(messages + conversation(answer), tools=[ADD])).choices[0].message.content


async def through_client(scenario, session):
    ask = session.openai.chat.completions.create
    messages = [{"role": "user", "content": scenario.input}]
    answer = (await ask(model="m", messages=messages, tools=[ADD])).choices[0].message
    last = await ask(model="m", messages=messages + conversation(answer), tools=[ADD])
    return last.choices[0].message.content


async def through_stream(scenario, session):
    messages = [{"role": "user", "content": scenario.input}]
    for _ in range(2):
        async with session.openai.chat.completions.stream(model="m", messages=messages, tools=[ADD]) as stream:
            answer = (await stream.get_final_completion()).choices[0].message
        messages += conversation(answer) if answer.tool_calls else [answer]
    return answer.content


def through_sync_client(scenario, session):
    ask = session.openai_sync.chat.completions.create
    messages = [{"role": "user", "content": scenario.input}]
    answer = ask(model="m", messages=messages, tools=[ADD]).choices[0].message
    return ask(model="m", messages=messages + conversation(answer), tools=[ADD]).choices[0].message.content


AGENTS = [through_chat, through_client, through_stream, through_sync_client]


def scripted() -> ScriptedPolicy:
    return ScriptedPolicy([[("add", {"a": 1, "b": 1})], "It is 2."])


async def run(agent) -> Trajectory:
    return await rollout(agent, TASK, scripted(), rollout_id="r1", limits=Limits(seconds=30))


@pytest.mark.parametrize("agent", AGENTS)
async def test_the_second_prompt_extends_the_first_path(agent) -> None:
    trajectory = await run(agent)
    assert (trajectory.output, trajectory.stop_reason, trajectory.error) == ("It is 2.", "finished", None)
    first, second = trajectory.turns
    assert (second.parent, second.fork) == (first.id, None)
    assert second.parent_len == trajectory.graph.path_len(first.id)


@pytest.mark.parametrize("agent", AGENTS[1:])
async def test_every_door_records_the_same_tokens(agent) -> None:
    row, expected = (await run(agent)).samples()[0], (await run(through_chat)).samples()[0]
    assert row.token_ids.tolist() == expected.token_ids.tolist()
    assert row.mask.tolist() == expected.mask.tolist()
    assert row.logprobs.tolist() == expected.logprobs.tolist()


async def test_the_wire_ids_are_the_recorded_path() -> None:
    choices = []

    async def agent(scenario, session):
        choices.append((await session.chat([{"role": "user", "content": "hi"}])).choices[0])

    trajectory = await rollout(agent, TASK, ScriptedPolicy(["hello"]))
    assert choices[0].prompt_token_ids + choices[0].token_ids == trajectory.graph.path(trajectory.turns[0].id)


async def test_a_stored_rollout_trains_the_same_rows() -> None:
    before = await run(through_chat)
    after = from_record(json.loads(json.dumps(to_record(before))))
    assert before.samples()[0].logprobs.tolist() == after.samples()[0].logprobs.tolist()


async def test_draws_depend_on_the_key_alone() -> None:
    def reply(messages, tools):
        return "ok"

    async def agent(scenario, session):
        await asyncio.sleep(0.01 * (3 - session.rng_parts[3]))
        await session.chat([{"role": "user", "content": scenario.input}])

    async def drawn(concurrency: int) -> list:
        (group,) = await gather(agent, [TASK], ScriptedPolicy(reply), group_size=4, concurrency=concurrency, seed=9)
        return [t.turns[0].logprobs for t in group]

    alone, together = await drawn(1), await drawn(4)
    assert alone == together
    assert len(set(alone)) == 4


async def test_a_script_that_runs_out_mid_rollout_keeps_the_turns_before() -> None:
    trajectory = await rollout(through_chat, TASK, ScriptedPolicy([[("add", {})], RuntimeError("cuda died")]))
    assert (trajectory.error, len(trajectory.turns)) == ("provider: RuntimeError: cuda died", 1)


async def test_a_policy_that_hits_its_context_ends_the_rollout_by_a_limit() -> None:
    policy = ScriptedPolicy([[("add", {})], LimitReached("max_context", "no room")])
    trajectory = await rollout(through_client, TASK, policy, reward=lambda t, s: 0.5)
    assert (trajectory.stop_reason, trajectory.error, trajectory.reward) == ("max_context", None, 0.5)


async def test_t12_interleaved_sub_agents_give_two_rows():
    """Two conversations of one rollout, taking turns or at the same time, are a row each, whatever their length."""

    async def talk(session, topic, turns):
        history = [{"role": "user", "content": topic}]
        for number in range(turns):
            answer = (await session.chat(history)).choices[0].message
            history += [answer, {"role": "user", "content": f"{topic}, part {number}"}]
            await asyncio.sleep(0)

    async def agent(scenario, session):
        await asyncio.gather(talk(session, "plan", 4), talk(session, "check", 4))

    trajectory = await rollout(agent, TASK, ScriptedPolicy(lambda messages, tools: "well, yes"))
    rows = trajectory.samples()
    assert len(trajectory.turns) == 8
    assert [row.trained_tokens for row in rows] == [4 * len("well, yes\0")] * 2
    assert sum(row.trained_tokens for row in rows) == trajectory.sampled_tokens
