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


class Rollout:
    """A session as far as keeping answers asks for one."""

    def __init__(self, rollout_id):
        self.rollout_id = rollout_id


async def kept(path, rollout_id, *calls, server=None, **options):
    """Make the calls of a rollout with an agent that keeps answers in ``path``."""
    mcp = McpAgent(server or Server(name="rich", command=tuple(rich())), **options)
    mcp.keep_answers(path)
    async with mcp.open(Scenario("s", "x"), Rollout(rollout_id)) as environment:
        answers = [(await environment.call_tool(name, arguments)).text for name, arguments in calls]
    await mcp.close()
    return answers


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


async def test_a_rollout_that_is_made_again_gets_its_answers_and_goes_on_from_there(tmp_path):
    """The session of its own that goes on has seen what was answered from the file."""
    path = tmp_path / "answers.jsonl"
    assert await kept(path, "1-s-0", ("add", {"by": 2}), ("add", {"by": 3})) == ["2", "5"]
    again = [("add", {"by": 2}), ("add", {"by": 3}), ("add", {"by": 4})]
    assert await kept(path, "1-s-0", *again[:2], server=OFF) == ["2", "5"]
    assert await kept(path, "1-s-0", *again) == ["2", "5", "9"]
    assert await kept(path, "1-s-0", *again, server=OFF) == ["2", "5", "9"]


async def test_another_rollout_asks_for_itself(tmp_path):
    path = tmp_path / "answers.jsonl"
    await kept(path, "1-s-0", ("add", {"by": 2}))
    with pytest.raises(ToolError, match="no-such-program"):
        await kept(path, "1-s-1", ("add", {"by": 2}), server=OFF)
    assert await kept(path, "1-s-1", ("get", {})) == ["0"]


async def test_kept_answers_of_shared_sessions_are_found_without_their_history(tmp_path):
    path = tmp_path / "answers.jsonl"
    first = await kept(path, "1-s-0", ("add", {"by": 2}), ("a.b/c", {}), isolation="shared")
    again = await kept(path, "1-s-0", ("a.b/c", {}), ("add", {"by": 2}), server=OFF, isolation="shared")
    assert again == first[::-1]


async def test_an_answer_that_a_kill_cut_off_is_asked_for_again(tmp_path):
    path = tmp_path / "answers.jsonl"
    await kept(path, "1-s-0", ("add", {"by": 2}), ("add", {"by": 3}))
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    assert await kept(path, "1-s-0", ("add", {"by": 2}), ("add", {"by": 3})) == ["2", "5"]
    assert path.read_bytes() == whole


async def test_answers_that_are_replayed_need_no_keeping(record, tmp_path):
    path, _ = await record([("get", {})])
    mcp = McpAgent(OFF, replay=path)
    mcp.keep_answers(tmp_path / "answers.jsonl")
    assert await play(mcp, ("get", {})) == ["0"]
    assert not (tmp_path / "answers.jsonl").exists()


async def test_keeping_and_recording_go_together(tmp_path):
    path, calls = tmp_path / "answers.jsonl", [("add", {"by": 2}), ("add", {"by": 3})]
    await kept(path, "1-s-0", *calls, record=tmp_path / "first.jsonl")
    await kept(path, "1-s-0", *calls, server=OFF, record=tmp_path / "second.jsonl")
    for name in ("first.jsonl", "second.jsonl"):
        assert await play(McpAgent(OFF, replay=tmp_path / name), *calls) == ["2", "5"]


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
