"""HTTP to a server: headers and tokens taken from the environment, OAuth client credentials, waiting out HTTP 429.

Works with the HTTP library of either SDK generation: whichever one the SDK's own client factory uses. Secrets are read
when a session starts and live in the HTTP client alone.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncGenerator
from email.utils import parsedate_to_datetime
from typing import Any

from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.shared import _httpx_utils

from art_core.errors import InputError

from .commands import OAuth, Server, expand

__all__ = ["Backoff", "TokenStore", "http_auth", "http_headers"]

_http: Any = getattr(_httpx_utils, "httpx2", None) or getattr(_httpx_utils, "httpx", None)
RETRIES_429 = 5
FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 30.0


class TokenStore:
    """Keeps OAuth tokens in memory, one store per server, so that sessions share a token. Never printed."""

    def __init__(self) -> None:
        self._tokens: Any = None
        self._client: Any = None

    async def get_tokens(self) -> Any:
        return self._tokens

    async def set_tokens(self, tokens: Any) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> Any:
        return self._client

    async def set_client_info(self, client_info: Any) -> None:
        self._client = client_info


class Backoff(_http.Auth):  # type: ignore[misc] # the base class is the SDK's HTTP library's
    """Sends a request again when the server answers 429 (it was not processed), after the wait the server asks for.

    Wraps another auth flow, so that both apply. ``waiting_until`` is the loop time until which requests are held back;
    ``refused`` is the status of the last answer if it was an error (the SDK does not always tell).
    """

    def __init__(self, inner: Any = None) -> None:
        self._inner = inner or _http.Auth()
        self.requires_response_body = getattr(self._inner, "requires_response_body", False)
        self.waiting_until = 0.0
        self.refused: int | None = None

    async def async_auth_flow(self, request: Any) -> AsyncGenerator[Any, Any]:
        flow = self._inner.async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                response = yield outgoing
                for attempt in range(RETRIES_429):
                    if response.status_code != 429:
                        break
                    await self._wait(response, attempt)
                    response = yield outgoing
                self.refused = response.status_code if response.status_code >= 400 else None
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    async def _wait(self, response: Any, attempt: int) -> None:
        seconds = min(retry_after(response.headers.get("retry-after"), attempt), LONGEST_WAIT_SECONDS)
        self.waiting_until = max(self.waiting_until, asyncio.get_running_loop().time() + seconds)
        await asyncio.sleep(seconds)


def retry_after(header: str | None, attempt: int) -> float:
    """Seconds to wait: what a Retry-After header says (seconds or a date), else doubling from half a second."""
    doubling = FIRST_WAIT_SECONDS * float(2**attempt)
    if header is None:
        return doubling
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(header)
    except ValueError:
        return doubling
    return max(0.0, moment.timestamp() - time.time())


def http_headers(server: Server) -> dict[str, str]:
    """The headers of a server with environment variables filled in.

    Raises:
        InputError: a variable is not set.
    """
    what = f"MCP server {server.name!r}"
    headers = {name: expand(value, what=what) for name, value in server.headers.items()}
    if server.bearer:
        headers["Authorization"] = f"Bearer {_variable(server.bearer, what)}"
    return headers


def http_auth(server: Server, tokens: TokenStore) -> Backoff:
    """The auth flow of a server's HTTP client.

    Raises:
        InputError: a variable that OAuth needs is not set, or the SDK is too old for it.
    """
    return Backoff(_oauth_provider(server, server.oauth, tokens) if server.oauth else None)


def _oauth_provider(server: Server, oauth: OAuth, tokens: TokenStore) -> Any:
    what = f"OAuth of MCP server {server.name!r}"
    known = inspect.signature(ClientCredentialsOAuthProvider).parameters
    if "issuer" not in known:
        raise InputError(f"{what} needs a newer mcp package, one that sends credentials to a named issuer only")
    options: dict[str, Any] = {"scope" if "scope" in known else "scopes": oauth.scope}
    return ClientCredentialsOAuthProvider(
        server_url=str(server.url),
        storage=tokens,
        client_id=_variable(oauth.client_id, what),
        client_secret=_variable(oauth.client_secret, what),
        issuer=oauth.issuer,
        **options,
    )


def _variable(name: str, what: str) -> str:
    if not name.isidentifier():
        raise InputError(f"{what} takes the name of an environment variable, such as MY_TOKEN, not a value")
    return expand(f"${{{name}}}", what=what)
