import asyncio
import contextvars
import threading
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from art_core.errors import InputError, LimitReached, ToolError
from art_core.inference.protocol import Completion, Interrupted
from art_core.messages import Message
from art_core.rollout.limits import Limits
from art_core.rollout.runner import rollout
from art_core.trajectory.trajectory import Reward, ToolEvent, Trajectory

from .doubles import TASK, USER, BytesPolicy, turns, until


async def test_a_finished_rollout_has_output_turns_and_reward() -> None:
    trajectory = await rollout(turns(2), TASK, BytesPolicy("four"), reward=lambda t, s: 0.5)
    assert (trajectory.output, len(trajectory.turns), trajectory.reward) == ("four", 2, 0.5)
    assert (trajectory.stop_reason, trajectory.error) == ("finished", None)


async def test_a_sync_agent_runs_in_another_thread_with_the_callers_context() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    variable.set("mine")
    trajectory = await rollout(lambda s, session: (variable.get(), threading.get_ident()), TASK, BytesPolicy())
    assert trajectory.output[0] == "mine"
    assert trajectory.output[1] != threading.get_ident()


async def test_a_sync_agent_may_return_a_coroutine() -> None:
    trajectory = await rollout(lambda s, session: turns(1)(s, session), TASK, BytesPolicy("four"))
    assert trajectory.output == "four"


async def test_a_sync_agent_uses_the_sync_client() -> None:
    def agent(scenario, session):
        return session.openai_sync.chat.completions.create(model="m", messages=[USER]).choices[0].message.content

    assert (await rollout(agent, TASK, BytesPolicy("four"))).output == "four"


async def test_a_failing_agent_keeps_its_turns_and_is_not_scored() -> None:
    async def agent(scenario, session):
        await session.chat([USER])
        raise ValueError("no such place")

    trajectory = await rollout(agent, TASK, BytesPolicy(), reward=lambda t, s: 1.0)
    assert (trajectory.stop_reason, trajectory.error) == ("error", "agent: ValueError: no such place")
    assert (len(trajectory.turns), trajectory.reward) == (1, None)
    assert "the rollout failed (agent: ValueError: no such place)" in trajectory.reward_reason


@pytest.mark.parametrize("client", ["chat", "openai"])
async def test_a_provider_failure_on_turn_3_keeps_turns_1_and_2(client) -> None:
    replies = iter(["a", "b", RuntimeError("cuda died")])

    async def agent(scenario, session):
        for _ in range(3):
            if client == "chat":
                await session.chat([USER])
            else:
                await session.openai.chat.completions.create(model="m", messages=[USER])

    trajectory = await rollout(agent, TASK, BytesPolicy(lambda m: next(replies)))
    assert (trajectory.stop_reason, trajectory.error) == ("error", "provider: RuntimeError: cuda died")
    assert [turn.reply.text for turn in trajectory.turns] == ["a", "b"]
    assert trajectory.metrics["provider_errors"] == 1


async def test_a_tool_failure_is_attributed_to_the_tool() -> None:
    async def agent(scenario, session):
        raise ToolError("server 'time' has gone")

    assert (await rollout(agent, TASK, BytesPolicy())).error == "tool: server 'time' has gone"


@pytest.mark.parametrize("wrapped", [False, True])
async def test_a_limit_is_not_a_failure(wrapped) -> None:
    async def agent(scenario, session):
        try:
            await turns(9)(scenario, session)
        except LimitReached as limit:
            raise (RuntimeError("loop broke") if wrapped else limit) from limit

    limits = Limits(turns=3)
    trajectory = await rollout(agent, TASK, BytesPolicy(), limits=limits, reward=lambda t, s: len(t.turns))
    assert (trajectory.stop_reason, trajectory.error, trajectory.reward) == ("max_turns", None, 3.0)


async def test_a_limit_the_agent_handled_keeps_its_output() -> None:
    async def agent(scenario, session):
        try:
            await turns(9)(scenario, session)
        except LimitReached:
            return "best so far"

    trajectory = await rollout(agent, TASK, BytesPolicy(), limits=Limits(turns=1))
    assert (trajectory.stop_reason, trajectory.output) == ("max_turns", "best so far")


async def test_the_time_limit_stops_an_async_agent_and_it_is_scored() -> None:
    async def agent(scenario, session):
        await session.chat([USER])
        await asyncio.sleep(60)

    trajectory = await rollout(agent, TASK, BytesPolicy(), limits=Limits(seconds=0.2), reward=lambda t, s: 0.25)
    assert (trajectory.stop_reason, len(trajectory.turns), trajectory.reward) == ("timeout", 1, 0.25)
    assert trajectory.seconds < 30


async def test_the_late_result_of_a_sync_agent_is_ignored_and_counted() -> None:
    go = threading.Event()

    def agent(scenario, session):
        go.wait(20)
        return "late"

    trajectory = await rollout(agent, TASK, BytesPolicy(), limits=Limits(seconds=0.1))
    go.set()
    await until(lambda: trajectory.metrics.get("late_results") == 1)
    assert (trajectory.stop_reason, trajectory.output) == ("timeout", None)
    assert trajectory.metrics["late_results"] == 1


async def test_a_sync_agent_that_goes_on_after_the_limit_is_told_at_its_next_call() -> None:
    go, seen = threading.Event(), []

    def agent(scenario, session):
        go.wait(20)
        try:
            session.openai_sync.chat.completions.create(model="m", messages=[USER])
        except Exception as error:
            seen.append(error.body["code"])

    await rollout(agent, TASK, BytesPolicy(), limits=Limits(seconds=0.1))
    go.set()
    await until(lambda: seen)
    assert seen == ["timeout"]


async def test_the_time_limit_frees_a_sync_agent_that_waits_for_the_model() -> None:
    ended = threading.Event()

    def agent(scenario, session):
        try:
            session.openai_sync.chat.completions.create(model="m", messages=[USER])
        finally:
            ended.set()

    policy = BytesPolicy(delay=60)
    trajectory = await rollout(agent, TASK, policy, limits=Limits(seconds=0.2))
    assert trajectory.stop_reason == "timeout"
    assert await asyncio.to_thread(ended.wait, 10)
    assert policy.running == 0


async def test_an_async_agent_that_ignores_its_cancellation_is_let_go_and_counted() -> None:
    go = asyncio.Event()

    async def agent(scenario, session):
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    trajectory = await rollout(agent, TASK, BytesPolicy(), limits=Limits(seconds=0.1, close_seconds=0.1))
    assert (trajectory.stop_reason, trajectory.metrics["abandoned_agents"]) == ("timeout", 1)
    go.set()
    await until(lambda: trajectory.metrics.get("late_results") == 1)
    assert trajectory.metrics["late_results"] == 1
    assert trajectory.output is None


async def test_an_agent_that_cancels_itself_is_a_failure() -> None:
    async def agent(scenario, session):
        raise asyncio.CancelledError

    trajectory = await rollout(agent, TASK, BytesPolicy())
    assert (trajectory.stop_reason, trajectory.error) == ("error", "agent: CancelledError: the agent cancelled itself")


@pytest.mark.parametrize("kind", [SystemExit, StopIteration, KeyboardInterrupt])
async def test_an_exit_in_a_sync_agent_does_not_end_the_run(kind) -> None:
    def agent(scenario, session):
        raise kind

    trajectory = await rollout(agent, TASK, BytesPolicy())
    assert trajectory.stop_reason == "error"
    assert kind.__name__ in (trajectory.error or "")


class Environment:
    """An agent with an environment that notes what happened to it."""

    def __init__(self, *, hang_open=False, hang_close=False, work=0.0) -> None:
        self.log: list[str] = []
        self.hang_open, self.hang_close, self.work = hang_open, hang_close, work

    @asynccontextmanager
    async def open(self, scenario, session):
        if self.hang_open:
            await asyncio.sleep(60)
        self.log.append("open")
        yield {"files": 2}
        self.log.append("closing")
        if self.hang_close:
            await asyncio.sleep(60)
        self.log.append("closed")

    async def __call__(self, scenario, session) -> None:
        await session.chat([USER])
        await asyncio.sleep(self.work)


async def test_the_reward_sees_the_open_environment_which_is_closed_afterwards() -> None:
    agent = Environment()

    def reward(trajectory: Trajectory, scenario):
        agent.log.append("reward")
        return trajectory.environment["files"]

    trajectory = await rollout(agent, TASK, BytesPolicy(), reward=reward)
    assert agent.log == ["open", "reward", "closing", "closed"]
    assert (trajectory.reward, trajectory.environment) == (2.0, None)


async def test_an_environment_is_closed_although_agent_and_reward_failed() -> None:
    agent = Environment()

    def reward(trajectory, scenario):
        raise KeyError("no")

    trajectory = await rollout(agent, TASK, BytesPolicy(RuntimeError("down")), reward=reward)
    assert agent.log == ["open", "closing", "closed"]
    assert trajectory.error == "provider: RuntimeError: down"


async def test_an_environment_that_does_not_close_is_left_after_its_time() -> None:
    agent = Environment(hang_close=True)
    trajectory = await rollout(
        agent, TASK, BytesPolicy(), limits=Limits(close_seconds=0.1), reward=lambda t, s: Reward(1.0)
    )
    assert (trajectory.stop_reason, trajectory.reward) == ("finished", 1.0)
    assert (trajectory.metrics["close_errors"], trajectory.metadata["close_error"]) == (1, "not closed within 0.1 s")


async def test_an_environment_that_does_not_open_is_a_failure_of_the_tool() -> None:
    trajectory = await rollout(Environment(hang_open=True), TASK, BytesPolicy(), limits=Limits(seconds=0.1))
    assert trajectory.error == "tool: the environment did not open within 0.1 s"
    assert trajectory.stop_reason == "error"


async def test_cancelling_closes_keeps_what_was_captured_and_leaks_no_task() -> None:
    agent, seen = Environment(work=60), []
    before = asyncio.all_tasks()
    task = asyncio.create_task(rollout(agent, TASK, BytesPolicy(), on_rollout=seen.append, reward=lambda t, s: 1.0))
    await until(lambda: seen or (agent.log and len(asyncio.all_tasks()) > 2))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert agent.log == ["open", "closing", "closed"]
    assert [(t.stop_reason, len(t.turns), t.reward) for t in seen] == [("cancelled", 1, None)]
    assert asyncio.all_tasks() == before


async def test_nothing_is_left_running_after_a_rollout() -> None:
    before = asyncio.all_tasks()
    await rollout(turns(3), TASK, BytesPolicy())
    assert asyncio.all_tasks() == before


async def test_a_missing_reply_type_is_a_provider_failure() -> None:
    class Wrong(BytesPolicy):
        async def complete(self, session, messages, tools, params):
            return Message(role="assistant")

    trajectory = await rollout(turns(1), TASK, Wrong())
    assert trajectory.error == "provider: the policy returned Message, not a Turn"


async def test_a_group_reward_is_refused_with_the_way_out() -> None:
    class Judge:
        async def score_group(self, group):
            return []

    with pytest.raises(InputError, match="give it to gather"):
        await rollout(turns(1), TASK, BytesPolicy(), reward=Judge())


async def test_an_agent_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be called"):
        await rollout("agent", TASK, BytesPolicy())  # type: ignore[arg-type]


async def test_a_tool_call_that_ends_after_its_rollout_is_ignored_and_counted() -> None:
    kept = []
    trajectory = await rollout(lambda s, session: kept.append(session), TASK, BytesPolicy())
    kept[0].record_tool(ToolEvent(turn=None, call_id="c1", name="add", arguments={}, result="2"))
    assert (trajectory.events, trajectory.metrics["late_results"]) == ([], 1)


class Interrupting(BytesPolicy):
    """Never finishes; cancelled, it has drawn three tokens."""

    async def complete(self, session, messages, tools, params):
        turn = replace(await super().complete(session, messages, tools, params), finish_reason="abort")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            completion = Completion(
                ids=turn.completion_ids, logprobs=turn.logprobs, finish_reason="abort", spans=turn.versions
            )
            raise Interrupted(completion, turn) from None


async def test_what_was_sampled_when_the_time_ran_out_is_kept() -> None:
    trajectory = await rollout(turns(1), TASK, Interrupting("ok"), limits=Limits(seconds=0.1))
    assert (trajectory.stop_reason, trajectory.sampled_tokens) == ("timeout", 3)
    assert trajectory.turns[0].finish_reason == "abort"


async def test_a_call_from_a_thread_is_kept_too_when_the_time_runs_out() -> None:
    def agent(scenario, session):
        session.openai_sync.chat.completions.create(model="m", messages=[USER])

    trajectory = await rollout(agent, TASK, Interrupting("ok"), limits=Limits(seconds=0.1))
    assert (trajectory.stop_reason, trajectory.sampled_tokens) == ("timeout", 3)


async def test_an_agents_own_time_limit_works_as_ever_and_the_cut_turn_is_kept() -> None:
    async def agent(scenario, session):
        try:
            async with asyncio.timeout(0.05):
                await session.chat([USER])
        except TimeoutError:
            return "gave up"

    trajectory = await rollout(agent, TASK, Interrupting("ok"))
    assert (trajectory.output, trajectory.sampled_tokens) == ("gave up", 3)


async def test_tokens_beyond_a_stop_text_are_in_the_metrics() -> None:
    class Stopping(BytesPolicy):
        async def complete(self, session, messages, tools, params):
            turn = await super().complete(session, messages, tools, params)
            return replace(turn, metadata={"tokens_after_stop": 4})

    trajectory = await rollout(turns(2), TASK, Stopping("ok"))
    assert trajectory.metrics["tokens_after_stop"] == 8
