"""Programs as people write them, with the client that they call in production; here no call may get there."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

NOWHERE = {"base_url": "http://127.0.0.1:9/v1", "api_key": "none", "max_retries": 0}
"""A service that refuses every connection: a call that is not captured fails."""


def asking(text):
    return {"model": "gpt-5-mini", "messages": [{"role": "user", "content": text}]}


def sync_program(question):
    completion = OpenAI(**NOWHERE).chat.completions.create(**asking(question))
    return completion.choices[0].message.content


async def async_program(question):
    completion = await AsyncOpenAI(**NOWHERE).chat.completions.create(**asking(question))
    return completion.choices[0].message.content


def sync_stream(question):
    stream = OpenAI(**NOWHERE).chat.completions.create(**asking(question), stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream)


async def async_stream(question):
    stream = await AsyncOpenAI(**NOWHERE).chat.completions.create(**asking(question), stream=True)
    return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])


def stream_helper(question):
    with OpenAI(**NOWHERE).chat.completions.stream(**asking(question)) as stream:
        return stream.get_final_completion().choices[0].message.content


def raw_response(question):
    raw = OpenAI(**NOWHERE).chat.completions.with_raw_response.create(**asking(question))
    return raw.parse().choices[0].message.content


def with_copied_context(question):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, sync_program, question).result()


async def to_thread(question):
    return await asyncio.to_thread(sync_program, question)


class Time(BaseModel):
    hour: int


def parsed(question):
    completion = OpenAI(**NOWHERE).chat.completions.parse(**asking(question), response_format=Time)
    return completion.choices[0].message.parsed


def with_session(scenario, session):
    return f"{sync_program(scenario.input)} in {session.rollout_id}"


def score(trajectory, scenario):
    return float(trajectory.output == scenario.expected)
