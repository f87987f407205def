"""Streamable HTTP and SSE against a real server on loopback."""

import asyncio
import json
import urllib.request
from contextlib import contextmanager

import pytest

from art_core.errors import InputError
from art_core.process import Child
from art_core.scenario import Scenario
from art_integrations.mcp import McpAgent, OAuth, Server
from tests.servers.processes import free_port, http_command, wait_until_served

KINDS = pytest.mark.parametrize("kind", ["http", "sse"])


class Served:
    def __init__(self, kind, port):
        self.kind = kind
        self.base = f"http://127.0.0.1:{port}"
        self.url = self.base + ("/sse" if kind == "sse" else "/mcp")

    def server(self, **more):
        return Server(name="counter", url=self.url, transport=self.kind, **more)

    def seen(self):
        with urllib.request.urlopen(self.base + "/seen") as answer:
            return json.load(answer)


@contextmanager
def served(kind, **env):
    port = free_port()
    with Child(http_command(kind, port), env={"MCP_TOKEN": "", **env}):
        wait_until_served(f"http://127.0.0.1:{port}/seen")
        yield Served(kind, port)


def opened(agent):
    return agent.open(Scenario("s", "x"), object())


async def text(environment, name, arguments=None, **more):
    return (await environment.call_tool(name, arguments, **more)).text


@KINDS
async def test_calls_timeouts_and_parallel_sessions(kind):
    with served(kind) as counter:
        agent = McpAgent(counter.server())
        async with opened(agent) as one, opened(agent) as two:
            assert await asyncio.gather(text(one, "add", {"by": 2}), text(two, "sleep", {"seconds": 0.1})) == [
                "2",
                "slept",
            ]
            assert (await one.call_tool("sleep", {"seconds": 30}, timeout=0.3)).error == "timeout"
            assert await text(one, "get") == "2"


@KINDS
async def test_a_server_that_dies_is_told_and_the_rollout_is_not_cancelled(kind):
    with served(kind) as counter:
        agent = McpAgent(counter.server(), call_timeout=3.0)
        async with opened(agent) as environment:
            await environment.call_tool("add", {"by": 1})
            assert (await environment.call_tool("die")).error in ("crash", "timeout")
            assert (await environment.call_tool("get")).error in ("crash", "timeout")
            assert asyncio.current_task().cancelling() == 0
            await asyncio.sleep(0.05)


@KINDS
async def test_a_cancelled_call_leaves_the_session_usable(kind):
    with served(kind) as counter:
        async with opened(McpAgent(counter.server())) as environment:
            for _ in range(20):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(environment.call_tool("sleep", {"seconds": 5}), 0.02)
            assert await text(environment, "get") == "0"


@KINDS
async def test_headers_and_bearer_token_come_from_the_environment(kind, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "t0p-secret")
    with served(kind, MCP_TOKEN="t0p-secret") as counter:
        server = counter.server(bearer="MY_TOKEN", headers={"X-Team": "${MY_TOKEN}-team"})
        agent = McpAgent(server)
        async with opened(agent) as environment:
            assert await text(environment, "add", {"by": 1}) == "1"
        headers = counter.seen()["headers"]
    assert (headers["authorization"], headers["x-team"]) == ("Bearer t0p-secret", "t0p-secret-team")
    assert "t0p-secret" not in repr(server) + str(vars(agent)) + str(await agent.listing())


@KINDS
async def test_a_refused_token_is_one_error_with_the_status(kind, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "wrong-one")
    with served(kind, MCP_TOKEN="right") as counter, pytest.raises(InputError, match="401") as caught:
        await McpAgent(counter.server(bearer="MY_TOKEN")).discover()
    assert counter.url in str(caught.value)
    assert "wrong-one" not in str(caught.value)


@KINDS
async def test_oauth_client_credentials_fetch_one_token_for_all_sessions(kind, monkeypatch):
    monkeypatch.setenv("MY_ID", "id")
    monkeypatch.setenv("MY_SECRET", "secret")
    with served(kind, MCP_TOKEN="granted") as counter:
        oauth = OAuth(client_id="MY_ID", client_secret="MY_SECRET", issuer=counter.base)
        agent = McpAgent(counter.server(oauth=oauth))
        for total in ("1", "2", "3"):
            async with opened(agent) as environment:
                assert await text(environment, "add", {"by": 1}) == total
        assert counter.seen()["headers"]["authorization"] == "Bearer granted"
        assert counter.seen()["tokens"] == 1


async def test_wrong_oauth_credentials_are_one_error(monkeypatch):
    monkeypatch.setenv("MY_ID", "id")
    monkeypatch.setenv("MY_SECRET", "wr0ng-value")
    with served("http", MCP_TOKEN="granted") as counter:
        oauth = OAuth(client_id="MY_ID", client_secret="MY_SECRET", issuer=counter.base)
        with pytest.raises(InputError, match="could not be started") as caught:
            await McpAgent(counter.server(oauth=oauth)).discover()
    assert "wr0ng-value" not in str(caught.value)


async def test_credentials_go_to_the_named_issuer_only(monkeypatch):
    monkeypatch.setenv("MY_ID", "id")
    monkeypatch.setenv("MY_SECRET", "secret")
    with served("http", MCP_TOKEN="granted") as counter:
        oauth = OAuth(client_id="MY_ID", client_secret="MY_SECRET", issuer="http://127.0.0.1:1")
        with pytest.raises(InputError, match="could not be started"):
            await McpAgent(counter.server(oauth=oauth)).discover()
        assert counter.seen()["tokens"] == 0


@KINDS
async def test_a_busy_server_is_waited_for(kind):
    with served(kind, MCP_BUSY="3") as counter:
        async with opened(McpAgent(counter.server())) as environment:
            assert await text(environment, "add", {"by": 1}) == "1"
        assert counter.seen()["counter"] == 1


async def test_concurrency_and_rate_are_per_server_over_all_rollouts():
    with served("http") as counter:
        agent = McpAgent(counter.server(concurrency=1), isolation="shared")
        async with opened(agent) as one, opened(agent) as two:
            started = asyncio.get_running_loop().time()
            await asyncio.gather(*(text(side, "sleep", {"seconds": 0.2}) for side in (one, two)))
            assert asyncio.get_running_loop().time() - started >= 0.4
        await agent.close()
