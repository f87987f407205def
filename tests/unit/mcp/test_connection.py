import asyncio
import gc
import warnings
from contextlib import asynccontextmanager

import pytest

from art_core.errors import InputError
from art_integrations.mcp import Server
from art_integrations.mcp.connection import Connection
from art_integrations.mcp.hooks import Hooks
from art_integrations.mcp.results import CallFailure
from tests.servers.processes import free_port, left_over, read_pids, rich, zombies


@asynccontextmanager
async def connected(*options, **more):
    connection = Connection(Server(name="rich", command=tuple(rich(*options))), **more)
    await connection.start()
    try:
        yield connection
    finally:
        await connection.close()


def text(wire):
    return wire["content"][0]["text"]


async def failure(connection, name, arguments=None, timeout=10.0):
    with pytest.raises(CallFailure) as caught:
        await connection.call_tool(name, arguments or {}, timeout=timeout)
    return caught.value.kind, str(caught.value)


async def test_state_lasts_for_the_session():
    async with connected() as connection:
        await connection.call_tool("add", {"by": 1}, timeout=10)
        await connection.call_tool("add", {"by": 1}, timeout=10)
        assert text(await connection.call_tool("get", {}, timeout=10)) == "2"


async def test_all_pages_are_followed():
    async with connected("--page", 50, "--many", 250) as connection:
        names = [tool["name"] for tool in await connection.list_all("tools")]
    assert len(names) == len(set(names)) == 282


async def test_resources_and_templates_are_listed():
    async with connected("--page", 1) as connection:
        assert len(await connection.list_all("resources")) == 2
        assert [item["name"] for item in await connection.list_all("resource_templates")] == ["day"]


async def test_a_timeout_is_a_failure_and_the_session_lives_on():
    async with connected() as connection:
        assert await failure(connection, "sleep", {"seconds": 30}, 0.05) == ("timeout", "no answer within 0.05 seconds")
        assert text(await connection.call_tool("get", {}, timeout=10)) == "0"


async def test_progress_extends_the_timeout():
    async with connected() as connection:
        wire = await connection.call_tool("progress", {"steps": 6, "each": 0.2}, timeout=0.7)
        assert text(wire) == "worked"


async def test_progress_extends_it_not_for_ever():
    async with connected() as connection:
        kind, _ = await failure(connection, "progress", {"steps": 10_000, "each": 0.02}, 0.1)
        assert kind == "timeout"


async def test_a_crash_names_exit_code_and_last_words():
    async with connected() as connection:
        expected = ("crash", "the server has ended with exit code 3; its last words: going down")
        assert await failure(connection, "exit", {"code": 3}) == expected
        assert await failure(connection, "get") == expected
        assert not connection.alive


async def test_a_protocol_error_is_told():
    async with connected() as connection:
        assert await failure(connection, "refuse") == ("protocol_error", "refused by the server")
        assert await failure(connection, "no_such_tool") == ("protocol_error", "Unknown tool: no_such_tool")


async def test_a_result_that_contradicts_its_schema_is_told():
    async with connected() as connection:
        kind, message = await failure(connection, "bad_structured")
        assert kind == "invalid_result"
        assert "'not a number' is not of type 'integer'" in message


async def test_a_server_that_cannot_start_is_one_error_with_its_last_words():
    connection = Connection(Server(name="rich", command=tuple(rich("--say", "no licence", "--die", 9))))
    with pytest.raises(InputError) as caught:
        await connection.start()
    message = str(caught.value)
    assert message.startswith("MCP server 'rich' could not be started: command ")
    assert "rich_server.py --say" in message
    assert message.endswith("ended with exit code 9; its last words: no licence")


async def test_a_server_that_never_answers_is_given_up_and_ended(tmp_path):
    command = tuple(rich("--deaf", "--child", "--pids", tmp_path / "pids"))
    connection = Connection(Server(name="rich", command=command), start_seconds=1.0)
    with pytest.raises(InputError, match="no answer within 1 s"):
        await connection.start()
    assert left_over(read_pids(tmp_path / "pids", 2)) == []


async def test_closing_ends_grandchildren_too(tmp_path):
    async with connected("--child", "--pids", tmp_path / "pids"):
        pids = read_pids(tmp_path / "pids", 2)
    assert left_over(pids) == []


async def test_cancelling_the_start_leaves_nothing(tmp_path):
    connection = Connection(Server(name="rich", command=tuple(rich("--deaf", "--pids", tmp_path / "pids"))))
    start = asyncio.create_task(connection.start())
    pids = await asyncio.to_thread(read_pids, tmp_path / "pids", 1)
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert left_over(pids) == []


async def test_sessions_close_from_any_task_in_any_order():
    servers = [Connection(Server(name="rich", command=tuple(rich()))) for _ in range(3)]
    await asyncio.gather(*(server.start() for server in servers))
    for server in servers:
        await asyncio.create_task(server.close())
    assert [server.alive for server in servers] == [False] * 3


async def test_calls_run_side_by_side():
    async with connected() as connection:
        loop = asyncio.get_running_loop()
        started = loop.time()
        await asyncio.gather(*(connection.call_tool("sleep", {"seconds": 0.5}, timeout=10) for _ in range(8)))
        assert loop.time() - started < 3


async def test_cancelling_a_call_100_times_leaves_no_warning_and_no_zombie(tmp_path, recwarn):
    warnings.simplefilter("always")
    complaints = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    async with connected("--pids", tmp_path / "pids") as connection:
        for number in range(100):
            task = asyncio.create_task(connection.call_tool("sleep", {"seconds": 0.05}, timeout=10))
            await asyncio.sleep(0.002 * (number % 5))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert text(await connection.call_tool("get", {}, timeout=10)) == "0"
    gc.collect()
    assert (complaints, [str(item.message) for item in recwarn]) == ([], [])
    assert left_over(read_pids(tmp_path / "pids", 1)) == []
    assert zombies() == []


async def test_elicitation_is_declined_by_default():
    async with connected() as connection:
        assert text(await connection.call_tool("elicit", {}, timeout=10)) == '{"action": "decline"}'


async def test_elicitation_is_answered_by_a_hook():
    asked = []

    def answer(server, request):
        asked.append((server, request["message"]))
        return {"action": "accept", "content": {"ok": True}}

    async with connected(hooks=Hooks(elicit=answer)) as connection:
        wire = await connection.call_tool("elicit", {}, timeout=10)
    assert text(wire) == '{"action": "accept", "content": {"ok": true}}'
    assert asked == [("rich", "Sure?")]


async def test_sampling_is_refused_by_default():
    async with connected() as connection:
        assert "not supported" in text(await connection.call_tool("sample", {}, timeout=10))


async def test_sampling_is_answered_by_an_async_hook():
    async def answer(server, request):
        said = request["messages"][0]["content"]["text"]
        return {"role": "assistant", "model": "m", "content": {"type": "text", "text": said.upper()}}

    async with connected(hooks=Hooks(sample=answer)) as connection:
        assert "SAY HI" in text(await connection.call_tool("sample", {}, timeout=10))


async def test_a_hook_that_raises_declines(caplog):
    def answer(server, request):
        raise ValueError("broken hook")

    async with connected(hooks=Hooks(elicit=answer, sample=answer)) as connection:
        assert text(await connection.call_tool("elicit", {}, timeout=10)) == '{"action": "decline"}'
        assert "sampling was declined" in text(await connection.call_tool("sample", {}, timeout=10))
    assert "broken hook" in caplog.text


async def test_workdir_and_variables_reach_the_server(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", "s3cret")
    env = {"KEY": "${SECRET}", "PLACE": "{workdir}/x"}
    server = Server(name="rich", command=tuple(rich()), env=env, cwd="{workdir}")
    connection = Connection(server, workdir=tmp_path)
    await connection.start()
    key = text(await connection.call_tool("env", {"name": "KEY"}, timeout=10))
    place = text(await connection.call_tool("env", {"name": "PLACE"}, timeout=10))
    await connection.call_tool("write", {"name": "note.txt", "text": "here"}, timeout=10)
    await connection.close()
    assert (key, place, (tmp_path / "note.txt").read_text()) == ("s3cret", f"{tmp_path}/x", "here")


async def test_a_missing_variable_is_named_before_anything_starts():
    connection = Connection(Server(name="rich", command=tuple(rich()), env={"KEY": "${NO_SUCH_VARIABLE}"}))
    with pytest.raises(InputError, match="'rich' needs the environment variable 'NO_SUCH_VARIABLE'"):
        await connection.start()


async def test_a_url_nobody_serves_is_one_error():
    url = f"http://127.0.0.1:{free_port()}/mcp"
    with pytest.raises(InputError, match=f"'gone' could not be started: {url}"):
        await Connection(Server(name="gone", url=url, transport="http"), start_seconds=5).start()
