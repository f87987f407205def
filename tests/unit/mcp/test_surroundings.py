"""What there is to ask a server about, found by looking."""

from __future__ import annotations

from art_integrations.mcp import McpAgent, Server
from tests.servers.processes import rich


async def seen(*arguments, **options):
    agent = McpAgent(Server(name="rich", command=tuple(rich(*arguments))), **options)
    try:
        return await agent.surroundings()
    finally:
        await agent.close()


async def test_resources_prompts_and_what_reading_tools_say(tmp_path):
    assert await seen(tools=["get", "add"]) == (
        'Resource "note:///one": The first note',
        'Resource "note:///logo": logo',
        'Prompt "review" (month): Look back on a month',
        "get() answers: 0",
    )


async def test_only_tools_that_read_or_sound_like_it_are_called(tmp_path):
    log = tmp_path / "log"
    await seen("--log", str(log), tools=["job_then_exit", "get"])
    assert not log.exists()


async def test_a_tool_that_fails_tells_nothing_and_the_others_are_asked():
    assert (await seen(tools=["read_then_exit", "get"]))[:1] == ('Resource "note:///one": The first note',)
