"""A rollout's URL: other processes call it, and it gives nothing away."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import httpx2
import pytest

import art_core as art
from art_core.inference.original import OriginalPolicy
from art_core.rollout.endpoint import endpoint
from art_core.rollout.selection import Selection

from .doubles import BytesPolicy

BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
CHILD = """
from openai import OpenAI
client = OpenAI()
said = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "one"}])
print(said.choices[0].message.content)
stream = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "two"}], stream=True)
print("".join(chunk.choices[0].delta.content or "" for chunk in stream))
"""


def echo(messages):
    return f"re: {messages[-1].text}"


async def output_of(*command, **env):
    process = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, **env}, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return out.decode()


async def post(url, key, **changes):
    async with httpx2.AsyncClient() as client:
        headers = {"authorization": f"Bearer {key}"}
        return await client.post(f"{url}/chat/completions", json={**BODY, **changes}, headers=headers)


async def answers(agent, policy=None):
    """What ``agent`` returns, an answer of the endpoint: status and the error's message."""
    trajectory = await art.rollout(agent, art.Scenario("a/b c", "q"), policy or BytesPolicy(echo))
    answer = trajectory.output
    return answer.status_code, answer.json()["error"]["message"]


async def test_a_program_in_another_process_is_captured_plain_and_streamed():
    async def agent(scenario, session):
        return await output_of(sys.executable, "-c", CHILD, **session.env)

    trajectory = await art.rollout(agent, art.Scenario("a/b c", "q"), BytesPolicy(echo))
    assert (trajectory.error, trajectory.output) == (None, "re: one\nre: two\n")
    assert [turn.reply.text for turn in trajectory.turns] == ["re: one", "re: two"]
    assert trajectory.turns[0].metadata["call"] == {"model": "m", "provider": "http"}


async def test_curl_is_captured():
    async def agent(scenario, session):
        key = f"Authorization: Bearer {session.env['OPENAI_API_KEY']}"
        url = f"{session.base_url}/chat/completions"
        return json.loads(await output_of("curl", "-sS", "-H", key, "-d", json.dumps(BODY), url))

    trajectory = await art.rollout(agent, art.Scenario("s", "q"), BytesPolicy(echo))
    assert trajectory.output["choices"][0]["message"]["content"] == "re: hi"


async def test_a_sync_agent_and_many_at_once_do_not_mix():
    def agent(scenario, session):
        headers = {"authorization": f"Bearer {session.env['OPENAI_API_KEY']}"}
        body = {**BODY, "messages": [{"role": "user", "content": scenario.id}]}
        answer = httpx2.post(f"{session.base_url}/chat/completions", json=body, headers=headers)
        return answer.json()["choices"][0]["message"]["content"]

    scenarios = [art.Scenario(f"s{n}", "q") for n in range(16)]
    done = await asyncio.gather(*(art.rollout(agent, scenario, BytesPolicy(echo)) for scenario in scenarios))
    assert [trajectory.output for trajectory in done] == [f"re: s{n}" for n in range(16)]


async def test_a_rollout_that_is_not_there_is_404():
    async def agent(scenario, session):
        return await post(session.base_url.replace("/a%2Fb%20c-", "/other-"), session.env["OPENAI_API_KEY"])

    status, message = await answers(agent)
    assert status == 404
    assert message.startswith("no rollout 'other-")


async def test_another_key_is_refused():
    async def agent(scenario, session):
        return await post(session.base_url, "guess")

    status, message = await answers(agent)
    assert (status, "OPENAI_API_KEY of session.env holds it" in message) == (401, True)


async def test_another_path_is_refused():
    async def agent(scenario, session):
        async with httpx2.AsyncClient() as client:
            return await client.get(f"{session.base_url}/models")

    status, message = await answers(agent)
    assert (status, "only POST ROLLOUT/v1/chat/completions is" in message) == (404, True)


async def test_what_is_not_json_is_refused():
    async def agent(scenario, session):
        headers = {"authorization": f"Bearer {session.env['OPENAI_API_KEY']}"}
        async with httpx2.AsyncClient() as client:
            return await client.post(f"{session.base_url}/chat/completions", content=b"{", headers=headers)

    assert await answers(agent) == (400, "the request body is not JSON: b'{'")


async def test_a_header_that_cannot_be_read_is_refused():
    async def agent(scenario, session):
        headers = {"authorization": f"Bearer {session.env['OPENAI_API_KEY']}", "x-art-call": "[]"}
        async with httpx2.AsyncClient() as client:
            return await client.post(f"{session.base_url}/chat/completions", json=BODY, headers=headers)

    assert await answers(agent) == (400, "x-art-call must be a JSON object, got []")


@pytest.mark.parametrize("forgotten", [False, True])
async def test_after_the_rollout_its_limit_is_the_answer(forgotten):
    async def agent(scenario, session):
        return session.env

    env = (await art.rollout(agent, art.Scenario("s", "q"), BytesPolicy(echo))).output
    if forgotten:  # the next rollout's URL lets go of the sessions before it
        await art.rollout(agent, art.Scenario("s", "q"), BytesPolicy(echo))
    answer = await post(env["OPENAI_BASE_URL"], env["OPENAI_API_KEY"])
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "rollout_limit")
    assert answer.json()["error"]["message"] == "the rollout is over: the agent has returned"
    assert answer.headers["x-should-retry"] == "false"


@pytest.mark.parametrize("policy", [None, OriginalPolicy()])
async def test_calls_that_are_not_trained_have_nobody_to_answer_them(policy):
    async def agent(scenario, session):
        session.selection = Selection("other")
        return await post(session.base_url, session.env["OPENAI_API_KEY"])

    status, message = await answers(agent, policy)
    assert (status, "its URL has no other model to answer them" in message) == (400, True)


def test_only_this_machine_is_listened_to():
    assert endpoint().url.startswith("http://127.0.0.1:")
