import asyncio

import pytest

from art_core.errors import InputError
from art_core.messages import MalformedCall, Message
from art_core.scenario import Scenario
from art_integrations.mcp import Example, McpAgent, Server
from tests.servers.processes import left_over, read_pids, rich

MALFORMED = Message(
    role="assistant",
    content="<tool_call>{",
    malformed_calls=(MalformedCall(raw="<tool_call>{", error="it is not JSON"),),
)


def kinds(session):
    return [event.error for event in session.events]


async def test_calls_are_made_in_order_and_answered(agent, replies, scenario):
    session = replies([("add", '{"by": 2}'), ("add", '{"by": 3}'), ("get", "{}")], "it is 5")
    assert await agent()(scenario, session) == "it is 5"
    messages, tools = session.requests[-1]
    assert [message.role for message in messages] == ["user", "assistant", "tool", "tool", "tool"]
    assert [(message.tool_call_id, message.text) for message in messages[2:]] == [
        ("c0.0", "2"),
        ("c0.1", "5"),
        ("c0.2", "5"),
    ]
    assert {tool.name for tool in tools} >= {"add", "get", "a_b_c"}


async def test_every_call_is_an_event_with_times_and_the_servers_own_name(agent, replies, scenario):
    session = replies([("a_b_c", '{"k": 1}')], "done")
    await agent()(scenario, session)
    (event,) = session.events
    assert (event.turn, event.call_id, event.name, event.arguments) == ("t1", "c0.0", "a_b_c", {"k": 1})
    assert event.result == 'called a.b/c with {"k": 1}'
    assert event.metadata == {"server": "rich_server", "original_name": "a.b/c"}
    assert 0 < event.started_s <= event.ended_s
    assert session.checks == 1


async def test_a_structured_value_is_kept_in_the_event(agent, replies, scenario):
    session = replies([("structured", "{}"), ("fail_structured", "{}")], "done")
    await agent()(scenario, session)
    assert [event.structured for event in session.events] == [{"value": 42}, {"why": 7}]


async def test_every_failure_is_a_message_the_model_can_react_to(agent, replies, scenario):
    calls = ["fail", "refuse", "bad_structured", "nothing_like_it", "sleep", "exit", "get"]
    session = replies([(name, "{}") for name in calls], "I give up")
    assert await agent(call_timeout=0.4)(scenario, session) == "I give up"
    assert kinds(session) == [
        "tool_error",
        "protocol_error",
        "invalid_result",
        "unknown_tool",
        "timeout",
        "crash",
        "crash",
    ]
    assert [message.text for message in session.requests[-1][0][2:]] == [event.result for event in session.events]


async def test_an_unknown_tool_is_told_the_valid_ones(agent, replies, scenario):
    session = replies([("put", "{}")], "done")
    await agent(tools=["add", "get"])(scenario, session)
    assert session.events[0].result == "Error (unknown tool): there is no tool 'put'; the tools are: add, get"


async def test_a_malformed_call_is_told_and_the_rollout_goes_on(agent, replies, scenario):
    session = replies(MALFORMED, "sorry")
    assert await agent()(scenario, session) == "sorry"
    answer = session.requests[-1][0][-1]
    assert (answer.role, answer.text) == ("user", "Error (malformed): your tool call could not be read: it is not JSON")
    assert (session.events[0].error, session.events[0].arguments) == ("malformed", "<tool_call>{")


async def test_only_malformed_calls_start_no_server(agent, replies, scenario, tmp_path):
    mcp = agent("--pids", tmp_path / "pids")
    await mcp.discover()
    await mcp(scenario, replies(MALFORMED, [("nothing", "{}")], "sorry"))
    assert len(read_pids(tmp_path / "pids", 1)) == 1


async def test_the_calls_of_the_last_turn_are_still_made(agent, replies, scenario):
    session = replies([("add", '{"by": 1}')], [("add", '{"by": 1}')])
    assert await agent(max_turns=2)(scenario, session) == ""
    assert [event.result for event in session.events] == ["1", "2"]


async def test_read_only_calls_of_a_turn_run_side_by_side(agent, replies, scenario):
    session = replies([("read_slowly", '{"seconds": 0.5}')] * 6, "done")
    await agent()(scenario, session)
    assert [event.call_id for event in session.events] == [f"c0.{at}" for at in range(6)]
    assert [message.tool_call_id for message in session.requests[-1][0][2:]] == [f"c0.{at}" for at in range(6)]
    assert session.events[0].ended_s > session.events[-1].started_s


async def test_results_are_cut(agent, replies, scenario):
    session = replies([("size", '{"n": 3000000}')], "long")
    await agent(result_limit=100)(scenario, session)
    assert session.events[0].result == "z" * 100 + "\n[... 2999900 more characters left out]"


async def test_the_tool_list_is_frozen(agent, replies, scenario):
    session = replies([("grow", "{}")], [("grown", "{}")], "done")
    mcp = agent()
    before = await mcp.discover()
    await mcp(scenario, session)
    assert kinds(session) == [None, "unknown_tool"]
    assert await mcp.discover() == before == session.requests[-1][1]


async def test_resources_are_read_through_a_tool(agent, replies, scenario):
    uris = ['{"uri": "note:///one"}', '{"uri": "note:///monday"}', "{}"]
    session = replies([("read_resource", uri) for uri in uris], "done")
    await agent(resources=True)(scenario, session)
    assert [event.result for event in session.events] == [
        "content of note:///one",
        "content of note:///monday",
        "Error (tool error): uri must be the URI of a resource, got None",
    ]


async def test_resources_are_not_offered_unless_asked_for(agent):
    assert "read_resource" not in [spec.name for spec in await agent().discover()]


async def test_rewards_see_the_open_session_and_the_workdir(replies, scenario, tmp_path):
    (tmp_path / "seed.txt").write_text("seed")
    mcp = McpAgent(Server(name="rich", command=tuple(rich()), cwd="{workdir}"), fixture=tmp_path)
    session = replies([("write", '{"name": "out.txt", "text": "made"}'), ("add", '{"by": 4}')], "done")
    async with mcp.open(scenario, session) as environment:
        await mcp(scenario, session)
        assert (environment.workdir / "out.txt").read_text() == "made"
        assert (environment.workdir / "seed.txt").read_text() == "seed"
        assert (await environment.call_tool("get")).text == "4"
        assert [tool.name for tool in environment.tools][:2] == ["add", "get"]
    assert not environment.workdir.exists()
    assert len(session.events) == 2


async def test_a_plain_reward_function_can_make_calls_from_its_thread(agent, scenario):
    async with agent().open(scenario, object()) as environment:
        result = await asyncio.to_thread(environment.call_tool_sync, "add", {"by": 7})
    assert result.text == "7"


async def test_a_reward_that_asks_for_an_unknown_tool_is_told_the_valid_ones(agent, scenario):
    async with agent(tools=["add"]).open(scenario, object()) as environment:
        with pytest.raises(InputError, match="no MCP server has a tool 'nope'; valid names: add, get"):
            await environment.call_tool("nope")


async def test_a_cancelled_rollout_keeps_the_call_and_leaves_no_process(agent, replies, scenario, tmp_path):
    session = replies([("sleep", '{"seconds": 60}')])
    mcp = agent("--child", "--pids", tmp_path / "pids")
    await mcp.discover()
    task = asyncio.create_task(mcp(scenario, session))
    pids = await asyncio.to_thread(read_pids, tmp_path / "pids", 4)
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert kinds(session) == ["cancelled"]
    assert left_over(pids) == []


async def test_discovery_happens_once(agent, tmp_path):
    mcp = agent("--pids", tmp_path / "pids")
    await asyncio.gather(*(mcp.discover() for _ in range(5)))
    assert str(await mcp.listing()).startswith("30 tools will really be called")
    assert len(read_pids(tmp_path / "pids", 1)) == 1


async def test_tools_on_later_pages_are_offered(agent):
    assert len(await agent("--page", 50, "--many", 250).discover()) == 280


def test_messages_begin_with_system_text_and_examples():
    example = Example(request="Add two", tool="add", arguments={"by": 2})
    mcp = McpAgent("prog", system="Be brief.", examples=[example])
    system, request, answer, user = mcp.messages(Scenario("s", "Add three"))
    assert (system.role, system.text) == ("system", "Be brief.")
    assert (request.role, request.text) == ("user", "Add two")
    assert (answer.tool_calls[0].name, answer.tool_calls[0].parsed()) == ("add", {"by": 2})
    assert (user.role, user.text) == ("user", "Add three")


def test_the_scenarios_own_system_message_is_joined():
    scenario = Scenario("s", [{"role": "system", "content": "You are X."}, {"role": "user", "content": "hi"}])
    messages = McpAgent("prog", system="Be brief.").messages(scenario)
    assert [(message.role, message.text) for message in messages] == [
        ("system", "Be brief.\n\nYou are X."),
        ("user", "hi"),
    ]


def test_without_system_text_there_is_no_system_message():
    assert [message.role for message in McpAgent("prog").messages(Scenario("s", "hi"))] == ["user"]


@pytest.mark.parametrize("given", [7, [], {"a": 1}])
def test_an_input_that_is_no_text_and_no_messages_is_named(given):
    with pytest.raises(InputError, match="scenario 's': input must be text or a list of messages"):
        McpAgent("prog").messages(Scenario("s", given))


async def test_an_example_that_calls_an_unknown_tool_is_named(agent):
    with pytest.raises(InputError, match="an example calls 'put', which is not offered; the tools are: add"):
        await agent(tools=["add"], examples=[{"request": "x", "tool": "put", "arguments": {}}]).discover()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"isolation": "none"}, "isolation must be 'rollout', 'shared' or 'pool', got 'none'"),
        ({"max_turns": 0}, "max_turns must be at least 1, got 0"),
        ({"result_limit": 0}, "result_limit must be at least 1"),
        ({"call_timeout": 0}, "must be above 0 seconds"),
        ({"fixture": "/no/such/dir"}, "is not a directory"),
        ({"fixture": "/"}, "no server's command or env mentions {workdir}"),
    ],
)
def test_options_that_cannot_be_used_are_named(options, message):
    with pytest.raises(InputError, match=message):
        McpAgent("prog", **options)


def test_a_workdir_needs_a_session_per_rollout():
    with pytest.raises(InputError, match=r"'prog' uses \{workdir\}, which needs isolation='rollout'"):
        McpAgent("prog {workdir}", isolation="shared")
