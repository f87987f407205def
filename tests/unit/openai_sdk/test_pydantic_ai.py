"""An agent of pydantic-ai, untouched."""

from __future__ import annotations

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.unit.rollout.reading import said

from .programs import NOWHERE
from .running import run

PROVIDER = OpenAIProvider(base_url=NOWHERE["base_url"], api_key=NOWHERE["api_key"])
clerk = Agent(OpenAIChatModel("gpt-5-mini", provider=PROVIDER), instructions="Tell the time.")


@clerk.tool_plain
def get_time(city: str) -> str:
    """Tell the time in a city."""
    return f"It is noon in {city}."


async def ask(question):
    return (await clerk.run(question)).output


def ask_sync(question):
    return clerk.run_sync(question).output


async def ask_streaming(question):
    async with clerk.run_stream(question) as stream:
        return await stream.get_output()


SCRIPT = [[("get_time", {"city": "Rome"})], "It is noon."]


async def test_an_agent_with_a_tool_is_one_row_of_exactly_the_sampled_tokens():
    trajectory = await run(ask, SCRIPT)
    assert (trajectory.error, trajectory.output) == (None, "It is noon.")
    (sample,) = trajectory.samples()
    assert sample.token_ids[sample.mask].tolist() == [i for turn in trajectory.turns for i in turn.completion_ids]
    assert [(m.role, m.text) for m in trajectory.messages] == [
        ("system", "Tell the time."),
        ("user", "What time is it?"),
        ("assistant", ""),
        ("tool", "It is noon in Rome."),
        ("assistant", "It is noon."),
    ]


async def test_called_synchronously_and_streaming_it_says_the_same():
    for program in (ask_sync, ask_streaming):
        trajectory = await run(program, SCRIPT)
        assert (trajectory.error, trajectory.output) == (None, "It is noon.")
        assert said(trajectory)[-1] == "It is noon."
