import asyncio
import contextvars
import random

import pytest

from art_core.errors import InputError
from art_core.rollout.group import gather
from art_core.rollout.limits import Limits
from art_core.scenario import Scenario
from art_core.trajectory.trajectory import Reward

from .doubles import TASK, USER, BytesPolicy, turns, until

TASKS = [Scenario("a", "1"), Scenario("b", "2"), Scenario("c", "3")]


class Judge:
    """Gives each sibling the number in its id."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []

    async def score_group(self, group):
        self.groups.append([t.rollout_id for t in group])
        return [Reward(float(t.rollout_id.rsplit("-", 1)[1])) for t in group]


async def test_groups_come_in_order_with_stable_ids() -> None:
    groups = await gather(turns(1), TASKS, BytesPolicy(), group_size=2, step=7)
    assert [group.group_id for group in groups] == ["7-a", "7-b", "7-c"]
    assert [t.rollout_id for t in groups[1]] == ["7-b-0", "7-b-1"]
    assert {t.group_id for t in groups[1]} == {"7-b"}


async def test_every_rollout_has_its_own_key() -> None:
    policy = BytesPolicy()
    await gather(turns(1), TASKS[:2], policy, group_size=2, seed=5, step=7)
    assert sorted(policy.keys) == [(5, 7, "a", 0), (5, 7, "a", 1), (5, 7, "b", 0), (5, 7, "b", 1)]


async def test_at_most_concurrency_rollouts_run() -> None:
    policy = BytesPolicy(delay=0.005)
    await gather(turns(2), TASKS, policy, group_size=4, concurrency=3)
    assert policy.most == 3


async def test_on_rollout_is_called_once_for_each_in_the_order_they_end() -> None:
    async def agent(scenario, session):
        await asyncio.sleep(0.2 * (1 - session.rng_parts[3]))
        if session.rng_parts[3] == 1:
            raise ValueError("no")

    seen = []
    await gather(
        agent, [TASK], BytesPolicy(), group_size=2, on_rollout=lambda t: seen.append((t.rollout_id, t.stop_reason))
    )
    assert seen == [("0-s1-1", "error"), ("0-s1-0", "finished")]


async def test_a_group_is_judged_as_soon_as_it_is_complete() -> None:
    release, judged = asyncio.Event(), []

    class Releasing(Judge):
        async def score_group(self, group):
            judged.append(group.group_id)
            release.set()
            return await super().score_group(group)

    async def agent(scenario, session):
        if scenario.id == "b":
            await release.wait()

    groups = await gather(agent, TASKS[:2], BytesPolicy(), group_size=2, reward=Releasing())
    assert judged == ["0-a", "0-b"]
    assert [group.rewards for group in groups] == [[0.0, 1.0], [0.0, 1.0]]


async def test_failed_siblings_are_not_judged() -> None:
    async def agent(scenario, session):
        if session.rng_parts[3] == 1:
            raise ValueError("no")

    judge = Judge()
    (group,) = await gather(agent, [TASK], BytesPolicy(), group_size=3, reward=judge)
    assert judge.groups == [["0-s1-0", "0-s1-2"]]
    assert group.rewards == [0.0, None, 2.0]
    assert group.trajectories[1].reward_reason == "not scored: the rollout failed (agent: ValueError: no)"


async def test_rewards_do_not_depend_on_the_order_in_which_siblings_end() -> None:
    async def agent(scenario, session):
        await asyncio.sleep(random.random() * 0.02)

    groups = [await gather(agent, [TASK], BytesPolicy(), group_size=5, reward=Judge()) for _ in range(2)]
    assert groups[0][0].rewards == groups[1][0].rewards == [0.0, 1.0, 2.0, 3.0, 4.0]


async def test_on_group_gets_every_scored_group() -> None:
    seen = []
    await gather(
        turns(1), TASKS, BytesPolicy(), group_size=2, reward=Judge(), on_group=lambda g: seen.append(g.rewards)
    )
    assert seen == [[0.0, 1.0]] * 3


async def test_cancelling_shows_what_was_captured_and_leaks_no_task() -> None:
    async def agent(scenario, session):
        await session.chat([USER])
        await asyncio.sleep(60)

    seen, policy, before = [], BytesPolicy(), asyncio.all_tasks()
    task = asyncio.create_task(gather(agent, TASKS, policy, group_size=2, concurrency=4, on_rollout=seen.append))
    await until(lambda: len(policy.keys) == 4)
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [(t.stop_reason, len(t.turns)) for t in seen] == [("cancelled", 1)] * 4
    assert asyncio.all_tasks() == before


async def test_every_task_has_a_name() -> None:
    names = []

    async def agent(scenario, session):
        names.extend(task.get_name() for task in asyncio.all_tasks() - {main})

    main = asyncio.current_task()
    await gather(agent, [TASK], BytesPolicy(), group_size=1)
    assert sorted(names) == ["agent of rollout 0-s1-0", "group 0-s1", "rollout 0-s1-0"]


async def test_a_failing_hook_stops_the_gather_with_its_own_error() -> None:
    def full(trajectory):
        raise OSError("disk full")

    before = asyncio.all_tasks()
    with pytest.raises(OSError, match="disk full"):
        await gather(turns(1), TASKS, BytesPolicy(), on_rollout=full)
    assert asyncio.all_tasks() == before


WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who")


async def test_64_sync_agents_with_nested_sync_calls_on_the_loops_executor_finish() -> None:
    """Sync node -> the loop -> sync node -> sync client, in 64 rollouts at once."""
    loop = asyncio.get_running_loop()

    def leaf(session) -> str:
        return session.openai_sync.chat.completions.create(model="m", messages=[USER]).choices[0].message.content

    async def inner(session) -> str:
        return await loop.run_in_executor(None, leaf, session)

    def node(session) -> str:
        return asyncio.run_coroutine_threadsafe(inner(session), loop).result()

    async def middle(session) -> str:
        return await loop.run_in_executor(None, node, session)

    def agent(scenario, session):
        return asyncio.run_coroutine_threadsafe(middle(session), loop).result() + WHO.get()

    WHO.set("!")
    policy = BytesPolicy(delay=0.01)
    run = gather(agent, [TASK], policy, group_size=64, concurrency=64, limits=Limits(seconds=60))
    (group,) = await asyncio.wait_for(run, 60)
    assert {t.output for t in group} == {"ok!"}
    assert {len(t.turns) for t in group} == {1}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"group_size": 0}, "group_size must be a whole number of at least 1, got 0"),
        ({"concurrency": True}, "concurrency must be a whole number of at least 1, got True"),
        ({"scenarios": []}, "there are no scenarios"),
        ({"scenarios": [TASK, TASK]}, "scenario id 's1' occurs twice"),
    ],
)
async def test_bad_arguments_are_refused_before_anything_runs(fields, text) -> None:
    with pytest.raises(InputError, match=text):
        await gather(turns(1), policy=BytesPolicy(), **{"scenarios": [TASK], **fields})
