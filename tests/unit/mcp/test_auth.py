import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from art_core.errors import InputError
from art_integrations.mcp import OAuth, Server
from art_integrations.mcp.auth import Backoff, TokenStore, http_auth, http_headers, retry_after


class Response:
    def __init__(self, status, **headers):
        self.status_code = status
        self.headers = headers


async def drive(flow, *responses):
    """Send the responses through an auth flow; returns how many requests it sent."""
    await anext(flow)
    sent = 1
    for response in responses:
        try:
            await flow.asend(response)
        except StopAsyncIteration:
            return sent
        sent += 1
    await flow.aclose()
    return sent


def test_headers_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("KEY", "k")
    monkeypatch.setenv("TOKEN", "t")
    server = Server(name="s", url="http://h", transport="http", headers={"X-Key": "${KEY}"}, bearer="TOKEN")
    assert http_headers(server) == {"X-Key": "k", "Authorization": "Bearer t"}


def test_a_missing_token_is_named(monkeypatch):
    monkeypatch.delenv("TOKEN", raising=False)
    with pytest.raises(InputError, match="'s' needs the environment variable 'TOKEN'"):
        http_headers(Server(name="s", url="http://h", transport="http", bearer="TOKEN"))


def test_a_token_given_as_a_value_is_refused_and_not_repeated():
    with pytest.raises(InputError, match="name of an environment variable") as caught:
        http_headers(Server(name="s", url="http://h", transport="http", bearer="ey.secret-token"))
    assert "secret-token" not in str(caught.value)


def test_oauth_names_the_missing_variable(monkeypatch):
    monkeypatch.delenv("CLIENT", raising=False)
    oauth = OAuth(client_id="CLIENT", client_secret="SECRET", issuer="http://i")
    with pytest.raises(InputError, match="OAuth of MCP server 's' needs the environment variable 'CLIENT'"):
        http_auth(Server(name="s", url="http://h", transport="http", oauth=oauth), TokenStore())


async def test_429_is_sent_again_until_it_is_answered():
    busy = Response(429, **{"retry-after": "0"})
    backoff = Backoff()
    assert await drive(backoff.async_auth_flow(object()), busy, busy, Response(200)) == 3
    assert backoff.refused is None


async def test_429_for_ever_is_given_up():
    busy = [Response(429, **{"retry-after": "0"})] * 10
    backoff = Backoff()
    assert await drive(backoff.async_auth_flow(object()), *busy) == 6
    assert backoff.refused == 429


async def test_other_answers_are_not_sent_again():
    backoff = Backoff()
    assert await drive(backoff.async_auth_flow(object()), Response(500)) == 1
    assert backoff.refused == 500


async def test_the_wait_is_known_to_calls_in_flight():
    backoff = Backoff()
    flow = backoff.async_auth_flow(object())
    await anext(flow)
    await flow.asend(Response(429, **{"retry-after": "0.01"}))
    assert 0 < backoff.waiting_until <= asyncio.get_running_loop().time() + 0.01
    await flow.aclose()


def test_retry_after_is_seconds_or_a_date_else_doubling():
    in_a_minute = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    assert retry_after("2.5", 0) == 2.5
    assert 50 < retry_after(in_a_minute, 0) <= 60
    assert [retry_after(None, attempt) for attempt in range(3)] == [0.5, 1.0, 2.0]
    assert retry_after("soon", 1) == 1.0
