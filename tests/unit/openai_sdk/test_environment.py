"""Models that are not trained: the service answers them, and what they said is kept with the rollout."""

from __future__ import annotations

import asyncio

import pytest
from openai import AsyncOpenAI, OpenAI

from art_core.inference.original import OriginalPolicy
from tests.unit.rollout.reading import said

from .programs import asking, sync_program
from .running import run
from .service import service

TOOL = {"type": "function", "function": {"name": "look", "description": "Look.", "parameters": {"type": "object"}}}


def plain(options):
    return OpenAI(**options).chat.completions.create(**asking("Fair?"), tools=[TOOL]).choices[0].message.content


def streamed(options):
    chunks = OpenAI(**options).chat.completions.create(**asking("Fair?"), tools=[TOOL], stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


def raw(options):
    answer = OpenAI(**options).chat.completions.with_raw_response.create(**asking("Fair?"), tools=[TOOL])
    return answer.parse().choices[0].message.content


def streamed_async(options):
    async def work():
        chunks = await AsyncOpenAI(**options).chat.completions.create(**asking("Fair?"), tools=[TOOL], stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in chunks])

    return asyncio.run(work())


def responses(options):
    flat = {"type": "function", **TOOL["function"], "strict": False}
    return OpenAI(**options).responses.create(model="gpt-5-mini", input="Fair?", tools=[flat]).output_text


@pytest.mark.parametrize("ask", [plain, streamed, raw, streamed_async, responses], ids=lambda ask: ask.__name__)
async def test_the_program_gets_the_answer_and_the_rollout_keeps_it(ask):
    with service() as options:
        trajectory = await run(lambda question: ask(options), [], policy=OriginalPolicy())
    assert (trajectory.error, trajectory.output, trajectory.turns) == (None, "Fair.", [])
    (call,) = trajectory.model_calls
    assert [(m.role, m.text) for m in call.messages] == [("user", "Fair?")]
    assert [tool.name for tool in call.tools] == ["look"]
    assert call.reply.text == "Fair."
    assert (call.input_tokens, call.output_tokens) == (5, 2)
    assert call.metadata["model"] == "gpt-5-mini"
    assert call.started_s <= call.ended_s
    assert trajectory.metrics["environment_model_calls"] == 1


async def test_only_chosen_models_are_trained():
    with service() as options:

        def program(question):
            answer = sync_program(question)
            return OpenAI(**options).chat.completions.create(**{**asking(answer), "model": "judge"})

        trajectory = await run(program, ["Noon."], train="gpt-5-mini")
    assert said(trajectory) == ["Noon."]
    assert [call.metadata["model"] for call in trajectory.model_calls] == ["judge"]


async def test_a_broken_call_of_a_model_is_kept_beside_the_good_one():
    with service() as options:

        def program(question):
            OpenAI(**options).chat.completions.create(**{**asking(question), "model": "careless"})

        trajectory = await run(program, [], policy=OriginalPolicy())
    (call,) = trajectory.model_calls
    assert [(one.name, one.arguments) for one in call.reply.tool_calls] == [("look", "{}")]
    assert [one.raw for one in call.reply.malformed_calls] == ["look({)"]


async def test_a_call_that_failed_is_kept_with_its_error():
    with service() as options:

        def program(question):
            OpenAI(**options).chat.completions.create(**{**asking(question), "model": "broken"})

        trajectory = await run(program, [], policy=OriginalPolicy())
    (call,) = trajectory.model_calls
    assert call.reply is None
    assert "no such model" in call.error


async def test_a_stream_that_is_left_is_told_so():
    with service() as options:

        def program(question):
            for chunk in OpenAI(**options).chat.completions.create(**asking(question), stream=True):
                return chunk.choices[0].delta.content
            return None

        trajectory = await run(program, [], policy=OriginalPolicy())
    (call,) = trajectory.model_calls
    assert (trajectory.output, call.error) == ("Fa", "the program left the stream before its end")
