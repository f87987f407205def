"""No process outlives its rollout, whatever happens to the process that runs it."""

import subprocess
import sys

import pytest

from tests.servers.processes import left_over, read_pids, rich, running

ROLLOUTS = """
import asyncio, signal, sys
from art_core.scenario import Scenario
from art_integrations.mcp import McpAgent

async def rollout(agent, number):
    async with agent.open(Scenario(f"s{number}", "x"), object()) as environment:
        await environment.call_tool("sleep", {"seconds": 600}, timeout=600)

async def main():
    agent = McpAgent([sys.argv[2:]], isolation=sys.argv[1])
    await agent.discover()
    await asyncio.gather(*(rollout(agent, number) for number in range(3)))

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started the tests with it ignored
asyncio.run(main())
"""


@pytest.mark.parametrize(("isolation", "sessions"), [("rollout", 3), ("shared", 1)])
def test_killing_the_process_of_the_rollouts_ends_servers_and_their_children(tmp_path, isolation, sessions):
    command = [sys.executable, "-c", ROLLOUTS, isolation, *rich("--child", "--pids", tmp_path / "pids")]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as parent:
        pids = read_pids(tmp_path / "pids", 2 + 2 * sessions, seconds=60)
        assert any(map(running, pids))
        parent.kill()
    assert left_over(pids) == []


def test_interrupting_the_process_of_the_rollouts_ends_servers_and_their_children(tmp_path):
    command = [sys.executable, "-c", ROLLOUTS, "rollout", *rich("--child", "--pids", tmp_path / "pids")]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as parent:
        pids = read_pids(tmp_path / "pids", 8, seconds=60)
        parent.send_signal(2)
        parent.wait(30)
    assert left_over(pids) == []
