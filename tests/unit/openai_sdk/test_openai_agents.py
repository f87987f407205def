"""An agent of the OpenAI Agents SDK, untouched but for its choice of API."""

from __future__ import annotations

import pytest
from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, function_tool, set_default_openai_client
from openai import AsyncOpenAI

from tests.unit.rollout.reading import said

from .programs import NOWHERE
from .running import run

CONFIG = RunConfig(tracing_disabled=True)


@function_tool
def get_time(city: str) -> str:
    """Tell the time in a city."""
    return f"It is noon in {city}."


def model(name):
    return OpenAIChatCompletionsModel(model=name, openai_client=AsyncOpenAI(**NOWHERE))


clerk = Agent(name="clerk", instructions="Tell the time.", tools=[get_time], model=model("gpt-5-nano"))
host = Agent(
    name="host",
    instructions="Answer.",
    model=model("gpt-5-mini"),
    tools=[clerk.as_tool(tool_name="ask_clerk", tool_description="Ask the clerk.")],
)


async def ask(question):
    return (await Runner.run(host, question, run_config=CONFIG)).final_output


async def ask_streaming(question):
    result = Runner.run_streamed(host, question, run_config=CONFIG)
    async for _ in result.stream_events():
        pass
    return result.final_output


SCRIPT = [
    [("ask_clerk", {"input": "What time is it in Rome?"})],
    [("get_time", {"city": "Rome"})],
    "It is noon in Rome.",
    "Noon.",
]


@pytest.mark.parametrize("program", [ask, ask_streaming])
async def test_the_calls_of_an_agent_that_is_a_tool_are_turns_too(program):
    trajectory = await run(program, SCRIPT)
    assert (trajectory.error, trajectory.output) == (None, "Noon.")
    asked = [turn.metadata["call"]["model"] for turn in trajectory.turns]
    assert asked == ["gpt-5-mini", "gpt-5-nano", "gpt-5-nano", "gpt-5-mini"]
    assert said(trajectory)[2:] == ["It is noon in Rome.", "Noon."]
    trained = [i for sample in trajectory.samples() for i in sample.token_ids[sample.mask].tolist()]
    assert sorted(trained) == sorted(i for turn in trajectory.turns for i in turn.completion_ids)
    assert len(trajectory.samples()) == 2


async def test_the_default_api_is_refused_with_the_cure():
    async def program(question):
        set_default_openai_client(AsyncOpenAI(**NOWHERE), use_for_tracing=False)
        return (await Runner.run(Agent(name="a", model="gpt-5-mini"), question, run_config=CONFIG)).final_output

    trajectory = await run(program, [])
    assert 'set_default_openai_api("chat_completions")' in trajectory.error
