"""Turns that were sampled again: left out of the rows unless asked for, and kept in the record."""

from __future__ import annotations

import asyncio

import httpx2
import pytest
from openai import AsyncOpenAI

import art_core as art
from art_core.errors import NotTrainable
from art_core.rollout.transports import BASE_URL, AsyncTransport
from art_core.trajectory.store import from_record, to_record

QUESTION = [{"role": "user", "content": "Time?"}]


async def one_after_the_other(scenario, session):
    for _ in range(2):
        await session.chat(QUESTION)


async def marked(*turn_ids):
    trajectory = await art.rollout(one_after_the_other, art.Scenario("s", "Time?"), art.ScriptedPolicy(["a", "b"]))
    trajectory.superseded.update(turn_ids)
    return trajectory


def trained(rows):
    return [bytes(row.token_ids[row.mask][:-1].tolist()).decode() for row in rows]


async def test_superseded_turns_are_trained_only_when_asked_for():
    trajectory = await marked("t0")
    assert trained(trajectory.samples()) == ["b"]
    assert sorted(trained(trajectory.samples(superseded=True))) == ["a", "b"]
    assert (trajectory.sampled_tokens, trajectory.superseded_tokens) == (4, 2)


async def test_a_rollout_of_superseded_turns_alone_has_no_rows():
    with pytest.raises(NotTrainable, match="all its turns were superseded"):
        (await marked("t0", "t1")).samples()


async def test_the_record_keeps_which_turns_they_are():
    record = to_record(await marked("t1"))
    assert from_record(record).superseded == {"t1"}
    del record["superseded"]  # one from before there were any
    assert from_record(record).superseded == set()


class Impatient(httpx2.AsyncBaseTransport):
    """Gives up on the first answer, or has it fail on the way."""

    def __init__(self, session, problem):
        self.inner, self.problem, self.sent, self.left = AsyncTransport(session), problem, 0, []

    async def handle_async_request(self, request):
        self.sent += 1
        if self.sent > 1:
            return await self.inner.handle_async_request(request)
        if self.problem == "500":
            return httpx2.Response(500, json={"error": {"message": "try again"}}, request=request)
        self.left.append(asyncio.ensure_future(self.inner.handle_async_request(request)))
        await asyncio.sleep(0)
        raise httpx2.ReadTimeout("too slow", request=request)


def agent_whose_client(problem):
    async def agent(scenario, session):
        transport = Impatient(session, problem)
        client = AsyncOpenAI(
            api_key="k", base_url=BASE_URL, max_retries=1, http_client=httpx2.AsyncClient(transport=transport)
        )
        await client.chat.completions.create(model="m", messages=QUESTION)
        await asyncio.gather(*transport.left)

    return agent


class Slow(art.ScriptedPolicy):
    """Answers the first request only when there is a second."""

    def __init__(self):
        super().__init__(["late", "in time"])
        self.second = asyncio.Event()
        self.asked = 0

    async def complete(self, session, messages, tools, params):
        self.asked += 1
        if self.asked == 1:
            await self.second.wait()
        self.second.set()
        return await super().complete(session, messages, tools, params)


async def test_a_client_that_gave_up_and_asked_again_supersedes_its_first_request():
    trajectory = await art.rollout(agent_whose_client("timeout"), art.Scenario("s", "Time?"), Slow())
    again = {turn.id: turn.metadata.get("call", {}).get("client_retry", 0) for turn in trajectory.turns}
    assert len(again) == 2
    assert trajectory.superseded == {turn_id for turn_id, count in again.items() if count == 0}


async def test_a_request_that_failed_and_was_sent_again_is_one_turn():
    trajectory = await art.rollout(
        agent_whose_client("500"), art.Scenario("s", "Time?"), art.ScriptedPolicy(["in time"])
    )
    assert [turn.metadata["call"] for turn in trajectory.turns] == [{"client_retry": 1}]
    assert trajectory.superseded == set()


async def test_the_same_question_twice_on_purpose_is_kept():
    assert (await marked()).superseded == set()
