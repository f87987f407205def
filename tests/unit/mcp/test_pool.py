import asyncio

import pytest

from art_core.errors import ToolError
from art_core.scenario import Scenario
from art_integrations.mcp import McpAgent
from art_integrations.mcp.connection import Connection
from tests.servers.processes import left_over, read_pids, rich


def opened(agent):
    """An environment of a rollout of its own."""
    return agent.open(Scenario("s", "x"), object())


def pids(path):
    return [int(line) for line in path.read_text().split()] if path.exists() else []


async def test_two_rollouts_have_counters_of_their_own(agent):
    mcp = agent()
    async with opened(mcp) as one, opened(mcp) as two:
        await one.call_tool("add", {"by": 5})
        await two.call_tool("add", {"by": 1})
        assert [(await side.call_tool("get")).text for side in (one, two)] == ["5", "1"]


async def test_a_shared_session_is_the_same_for_all(agent, tmp_path):
    mcp = agent("--pids", tmp_path / "pids", isolation="shared")
    async with opened(mcp) as one, opened(mcp) as two:
        await one.call_tool("add", {"by": 5})
        assert (await two.call_tool("get")).text == "5"
    async with opened(mcp) as three:
        assert (await three.call_tool("get")).text == "5"
    await mcp.close()
    assert len(pids(tmp_path / "pids")) == 2  # one was asked for its tools
    assert left_over(pids(tmp_path / "pids")) == []


async def test_a_pool_lends_its_sessions_to_one_rollout_at_a_time(agent, tmp_path):
    mcp = agent("--pids", tmp_path / "pids", isolation="pool", pool_size=2)

    async def rollout(number):
        async with opened(mcp) as environment:
            before = int((await environment.call_tool("get")).text)
            await environment.call_tool("sleep", {"seconds": 0.02})
            after = int((await environment.call_tool("add", {"by": 1})).text)
            return after - before

    assert await asyncio.gather(*map(rollout, range(8))) == [1] * 8
    await mcp.close()
    assert len(pids(tmp_path / "pids")) == 3


async def test_nothing_starts_before_the_first_call(agent, tmp_path):
    mcp = agent("--pids", tmp_path / "pids")
    await mcp.discover()
    async with opened(mcp):
        pass
    assert len(pids(tmp_path / "pids")) == 1


async def test_64_rollouts_start_a_bounded_number_at_a_time(agent, tmp_path, monkeypatch):
    mcp = agent("--pids", tmp_path / "pids", max_starts=4)
    start, starting, most = Connection.start, 0, 0

    async def counted(self):
        nonlocal starting, most
        starting += 1
        most = max(most, starting)
        await start(self)
        starting -= 1

    monkeypatch.setattr(Connection, "start", counted)

    async def rollout():
        async with opened(mcp) as environment:
            return (await environment.call_tool("add", {"by": 1})).text

    assert await asyncio.gather(*(rollout() for _ in range(64))) == ["1"] * 64
    assert most == 4
    assert left_over(read_pids(tmp_path / "pids", 65)) == []


async def test_a_call_after_the_rollout_is_refused_and_starts_nothing(agent, tmp_path):
    for isolation in ("rollout", "shared"):
        mcp = agent("--pids", tmp_path / isolation, isolation=isolation)
        async with opened(mcp) as environment:
            pass
        with pytest.raises(ToolError, match="'add' was called after its rollout's environment was closed"):
            await environment.call_tool("add")
        assert len(pids(tmp_path / isolation)) == 1


async def test_a_session_that_starts_while_its_rollout_ends_is_ended(agent, tmp_path):
    mcp = agent("--pids", tmp_path / "pids")
    async with opened(mcp) as environment:
        late = asyncio.create_task(environment.call_tool("add"))
        await asyncio.sleep(0.001)
    with pytest.raises(ToolError, match="the rollout ended while"):
        await late
    assert left_over(pids(tmp_path / "pids")) == []


async def test_a_crashed_session_of_a_rollout_stays_ended(agent):
    async with opened(agent()) as environment:
        assert (await environment.call_tool("exit", {"code": 3})).error == "crash"
        assert (await environment.call_tool("get")).error == "crash"


async def test_a_crashed_shared_session_is_started_again(agent):
    mcp = agent(isolation="shared")
    async with opened(mcp) as environment:
        assert (await environment.call_tool("exit", {"code": 3})).error == "crash"
        assert (await environment.call_tool("get")).text == "0"
    await mcp.close()


@pytest.mark.parametrize(("tool", "times"), [("job_then_exit", 1), ("read_then_exit", 2)])
async def test_a_call_that_may_have_arrived_is_repeated_only_if_that_changes_nothing(agent, tmp_path, tool, times):
    mcp = agent("--log", tmp_path / "log", isolation="shared")
    async with opened(mcp) as environment:
        assert (await environment.call_tool(tool)).error == "crash"
    await mcp.close()
    assert (tmp_path / "log").read_text() == "job\n" * times


async def test_in_a_session_of_its_own_nothing_is_ever_repeated(agent, tmp_path):
    async with opened(agent("--log", tmp_path / "log")) as environment:
        assert (await environment.call_tool("read_then_exit")).error == "crash"
    assert (tmp_path / "log").read_text() == "job\n"


async def test_a_server_that_stops_starting_fails_the_rollout_not_the_model(agent, tmp_path):
    flag = tmp_path / "flag"
    script = f'if [ -e {flag} ]; then echo "disk full" >&2; exit 8; fi; exec {" ".join(rich())}'
    mcp = McpAgent([["sh", "-c", script]])
    await mcp.discover()
    flag.touch()
    async with opened(mcp) as environment:
        with pytest.raises(ToolError, match="ended with exit code 8; its last words: disk full"):
            await environment.call_tool("get")


async def test_several_servers_are_used_at_once(tmp_path):
    mcp = McpAgent([rich("--log", tmp_path / "one"), rich("--log", tmp_path / "two")], tools=["add", "get"])
    names = [spec.name for spec in await mcp.discover()]
    assert names == ["rich_server-1_add", "rich_server-1_get", "rich_server-2_add", "rich_server-2_get"]
    async with opened(mcp) as environment:
        await environment.call_tool("rich_server-1_add", {"by": 3})
        assert (await environment.call_tool("rich_server-2_get")).text == "0"


async def test_the_agent_survives_a_change_of_event_loop(agent):
    mcp = agent(isolation="shared")

    async def add():
        async with opened(mcp) as environment:
            return (await environment.call_tool("add", {"by": 1})).text

    assert await add() == "1"
    assert await asyncio.to_thread(asyncio.run, add()) == "1"
    assert await asyncio.to_thread(asyncio.run, add()) == "1"
