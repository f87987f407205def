"""Who answers a call of the SDK: the policy inside a rollout, the service elsewhere, nobody from a raw thread."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest
from openai import APIConnectionError, AsyncAzureOpenAI, AzureOpenAI, BadRequestError, OpenAI
from openai._base_client import AsyncAPIClient, SyncAPIClient

import art_core as art
from art_integrations import langgraph
from art_integrations.openai_sdk import install, installed, uninstall
from tests.threads import in_a_pool, in_a_thread
from tests.unit.rollout.doubles import BytesPolicy
from tests.unit.rollout.reading import said

from . import programs
from .programs import NOWHERE, asking, sync_program
from .running import run
from .service import service

PROGRAMS = [
    *(programs.sync_program, programs.async_program, programs.sync_stream, programs.async_stream),
    *(programs.stream_helper, programs.raw_response, programs.with_copied_context, programs.to_thread),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
async def test_a_call_is_a_turn_token_by_token(program):
    trajectory = await run(program, ["It is  noon.\n"])
    assert trajectory.error is None
    assert trajectory.output == "It is  noon.\n"
    assert said(trajectory) == ["It is  noon.\n"]
    (sample,) = trajectory.samples()
    assert tuple(sample.token_ids[sample.mask].tolist()) == trajectory.turns[0].completion_ids


async def test_a_turn_knows_who_called():
    trajectory = await run(programs.async_program, ["Noon."])
    assert trajectory.turns[0].metadata["call"] == {"model": "gpt-5-mini", "provider": "AsyncOpenAI"}


async def test_parsed_output_is_parsed():
    trajectory = await run(programs.parsed, ['{"hour": 12}'])
    assert trajectory.output == programs.Time(hour=12)


async def test_azure_is_captured_and_its_token_is_not_asked_for():
    def refuse():
        raise AssertionError("a token was asked for")

    options = {"azure_endpoint": NOWHERE["base_url"], "api_version": "1", "azure_ad_token_provider": refuse}

    async def program(question):
        sync = await asyncio.to_thread(AzureOpenAI(**options).chat.completions.create, **asking("one"))
        other = await AsyncAzureOpenAI(**options).chat.completions.create(**asking("two"))
        return sync.choices[0].message.content + other.choices[0].message.content

    trajectory = await run(program, lambda messages, tools: messages[-1].text)
    assert trajectory.output == "onetwo"


async def test_a_client_with_a_transport_of_its_own_is_captured():
    def refuse(request):
        raise AssertionError("a request was sent")

    def program(question):
        client = OpenAI(api_key="k", http_client=httpx2.Client(transport=httpx2.MockTransport(refuse)))
        return client.chat.completions.create(**asking(question)).choices[0].message.content

    assert (await run(program, ["Noon."])).output == "Noon."


async def test_a_failing_policy_is_asked_once_whatever_the_client_would_do():
    policy = BytesPolicy(RuntimeError("out of memory"))

    def program(question):
        return OpenAI(**NOWHERE | {"max_retries": 5}).chat.completions.create(**asking(question))

    trajectory = await run(program, [], policy=policy)
    assert trajectory.error == "provider: RuntimeError: out of memory"
    assert len(policy.params) == 1


async def test_a_limit_ends_the_program():
    def program(question):
        while True:
            sync_program(question)

    trajectory = await run(program, lambda messages, tools: "again", limits=art.Limits(turns=3))
    assert (trajectory.stop_reason, len(trajectory.turns)) == ("max_turns", 3)


async def test_every_model_can_have_an_adapter_of_its_own():
    policy = BytesPolicy("ok")

    def program(question):
        for model in ("big", "small"):
            OpenAI(**NOWHERE).chat.completions.create(**{**asking(question), "model": model})

    await run(program, [], policy=policy, train={"big": "plans", "small": "texts"})
    assert [params["adapter"] for params in policy.params] == ["plans", "texts"]


async def test_several_rollouts_do_not_mix():
    outputs = await asyncio.gather(
        *(run(sync_program, lambda messages, tools: messages[-1].text, f"question {n}") for n in range(32))
    )
    assert [trajectory.output for trajectory in outputs] == [f"question {n}" for n in range(32)]


def test_outside_of_a_rollout_the_service_is_asked():
    install()
    with pytest.raises(APIConnectionError):
        sync_program("hello")
    with service() as options:
        assert OpenAI(**options).chat.completions.create(**asking("hello")).choices[0].message.content == "Fair."


def test_clients_and_threads_are_put_back():
    uninstall()
    langgraph.uninstall()
    before = SyncAPIClient.request, AsyncAPIClient.request, threading.Thread.start, ThreadPoolExecutor.submit
    install()
    assert installed()
    uninstall()
    assert (
        *(SyncAPIClient.request, AsyncAPIClient.request),
        *(threading.Thread.start, ThreadPoolExecutor.submit),
    ) == before
    install()


@pytest.mark.parametrize("start", [in_a_thread, in_a_pool])
async def test_a_raw_thread_of_a_rollout_reaches_nobody_and_is_told_how_to_do_it(start):
    caught = []

    def call():
        try:
            sync_program("hello")
        except art.InputError as error:
            caught.append(str(error))

    def program(question):
        start(call)
        return sync_program(question)

    await run(program, ["Noon."])
    (message,) = caught
    assert message.startswith("OpenAI was called in a thread that rollout 's-")
    assert "contextvars.copy_context().run" in message


async def test_under_no_capture_the_service_is_asked():
    with service() as options:

        def program(question):
            answer = sync_program(question)
            with art.no_capture():
                judged = OpenAI(**options).chat.completions.create(**asking(answer))
            return judged.choices[0].message.content

        trajectory = await run(program, ["Noon."])
    assert (trajectory.output, said(trajectory), trajectory.model_calls) == ("Fair.", ["Noon."], [])


async def test_the_responses_api_is_refused_with_the_cure():
    def program(question):
        OpenAI(**NOWHERE).responses.create(model="gpt-5-mini", input=question)

    trajectory = await run(program, [])
    assert "was asked for /responses, and a rollout answers chat completions only" in trajectory.error
    assert 'set_default_openai_api("chat_completions")' in trajectory.error


async def test_requests_of_no_chat_model_go_where_they_always_go():
    def program(question):
        OpenAI(**NOWHERE).embeddings.create(model="e", input=question)

    assert (await run(program, [])).error == "agent: APIConnectionError: Connection error."


async def test_a_session_s_own_client_is_not_taken_twice():
    async def program(scenario, session):
        await session.openai.chat.completions.create(**asking("one"))
        return (await session.openai.chat.completions.create(**asking("two"))).choices[0].message.content

    trajectory = await run(program, ["1", "2"])
    assert (trajectory.output, len(trajectory.turns)) == ("2", 2)


async def test_what_the_policy_cannot_do_is_the_clients_usual_error():
    def program(question):
        try:
            OpenAI(**NOWHERE).chat.completions.create(**asking(question), n=2)
        except BadRequestError as error:
            return error.body["message"]

    assert "n must be 1" in (await run(program, [])).output
