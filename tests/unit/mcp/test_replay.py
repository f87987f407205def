import json

import pytest

from art_core.errors import InputError, ToolError
from art_core.scenario import Scenario
from art_integrations.mcp import McpAgent, Server
from tests.servers.processes import rich

OFF = Server(name="rich", command=("no-such-program",))


async def play(mcp, *calls):
    async with mcp.open(Scenario("s", "x"), object()) as environment:
        return [(await environment.call_tool(name, arguments)).text for name, arguments in calls]


@pytest.fixture
def record(tmp_path):
    """Record calls of rollouts into a file."""

    async def run(*rollouts, **options):
        mcp = McpAgent(Server(name="rich", command=tuple(rich())), record=tmp_path / "calls.jsonl", **options)
        results = [await play(mcp, *calls) for calls in rollouts]
        await mcp.close()
        return tmp_path / "calls.jsonl", results

    return run


async def test_a_rollout_is_replayed_with_the_server_off(record):
    calls = [("add", {"by": 2}), ("add", {"by": 2}), ("structured", {}), ("fail", {})]
    path, (recorded,) = await record(calls)
    assert await play(McpAgent(OFF, replay=path), *calls) == recorded == ["2", "4", '{"value": 42}', "it did not work"]


async def test_the_tools_are_those_that_were_recorded(record):
    path, _ = await record([("get", {})])
    assert "a_b_c" in [spec.name for spec in await McpAgent(OFF, replay=path).discover()]


async def test_with_state_the_calls_before_count(record):
    one, two = [("add", {"by": 1}), ("get", {})], [("add", {"by": 2}), ("get", {})]
    path, _ = await record(one, two)
    mcp = McpAgent(OFF, replay=path)
    assert await play(mcp, *two) == ["2", "2"]
    assert await play(mcp, *one) == ["1", "1"]


async def test_without_state_only_repetitions_count(record):
    path, _ = await record([("add", {"by": 1}), ("a.b/c", {}), ("add", {"by": 1})], isolation="shared")
    mcp = McpAgent(OFF, replay=path, isolation="shared")
    assert await play(mcp, ("add", {"by": 1}), ("add", {"by": 1}), ("a.b/c", {})) == ["1", "2", "called a.b/c with {}"]


async def test_a_call_that_was_not_recorded_fails_the_rollout(record):
    path, _ = await record([("get", {})])
    with pytest.raises(ToolError, match=r'no recorded answer to add\(\{"by":9\}\)'):
        await play(McpAgent(OFF, replay=path), ("add", {"by": 9}))


async def test_recording_on_keeps_what_is_there(record):
    path, _ = await record([("get", {})])
    before = path.read_text()
    await record([("get", {})])
    assert path.read_text() == before
    assert [json.loads(line).get("tool") for line in before.splitlines()] == [None, "get"]


async def test_a_server_that_was_not_recorded_is_named(record):
    path, _ = await record([("get", {})])
    with pytest.raises(InputError, match="no recording of MCP server 'other'; servers recorded there: rich"):
        await McpAgent(Server(name="other", command=("x",)), replay=path).discover()


def test_a_file_that_is_no_recording_is_named(tmp_path):
    (tmp_path / "x.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match="is not a recording of MCP calls: a line has no 'text'"):
        McpAgent(OFF, replay=tmp_path / "x.jsonl")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match="cannot read"):
        McpAgent(OFF, replay=tmp_path / "gone.jsonl")


def test_recording_and_replaying_at_once_is_refused(tmp_path):
    with pytest.raises(InputError, match="record and replay are both given"):
        McpAgent(OFF, record=tmp_path / "a", replay=tmp_path / "b")
