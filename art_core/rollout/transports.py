"""OpenAI clients bound to one rollout: httpx2 transports that hand the request to the session, without sockets."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import httpx2
from openai import AsyncOpenAI, OpenAI

from art_core.errors import ArtError, InputError

from . import wire
from .session import Session

__all__ = [
    "BASE_URL",
    "CALL_HEADER",
    "AsyncTransport",
    "SyncTransport",
    "answer_in_thread",
    "answer_on_loop",
    "async_client",
    "call_header",
    "caller_of",
    "sync_client",
]

BASE_URL = "http://policy/v1"
CALL_HEADER = "x-art-call"
"""A JSON object: what is known about the caller, kept as the turn's ``metadata["call"]``."""
_PATH = "/chat/completions"


class AsyncTransport(httpx2.AsyncBaseTransport):
    """Answers chat-completions requests with turns of ``session``; usable from any event loop."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        payload = await request.aread()
        return _response(await answer_on_loop(self._session, payload, lambda: _caller(request)), request)


class SyncTransport(httpx2.BaseTransport):
    """The same for synchronous code in a worker thread; the thread waits, the session's loop does not."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        payload = request.read()
        return _response(answer_in_thread(self._session, payload, lambda: _caller(request)), request)


async def answer_on_loop(
    session: Session, payload: str | bytes, caller: Callable[[], Mapping[str, Any]], *, logprobs: bool = True
) -> wire.Response:
    """Have a request answered on the session's loop, whichever loop asks. Whatever error is ours is a response too.

    Args:
        caller: what is known about who asks; may raise as well.
        logprobs: see ``wire.handle``.
    """
    try:
        about = caller()
        return await session.crossing.on_loop(lambda: wire.handle(session, payload, about=about, logprobs=logprobs))
    except ArtError as error:
        return wire.error_response(error)


def answer_in_thread(
    session: Session, payload: str | bytes, caller: Callable[[], Mapping[str, Any]], *, logprobs: bool = True
) -> wire.Response:
    """The same for synchronous code: the thread waits."""
    try:
        about = caller()
        return session.crossing.from_thread(lambda: wire.handle(session, payload, about=about, logprobs=logprobs))
    except ArtError as error:
        return wire.error_response(error)


def async_client(session: Session) -> AsyncOpenAI:
    """An ``AsyncOpenAI`` that never retries and whose calls are turns of ``session``."""
    return AsyncOpenAI(
        api_key="rollout",
        base_url=BASE_URL,
        max_retries=0,
        http_client=httpx2.AsyncClient(transport=AsyncTransport(session)),
    )


def sync_client(session: Session) -> OpenAI:
    """An ``OpenAI`` client that never retries and whose calls are turns of ``session``."""
    return OpenAI(
        api_key="rollout",
        base_url=BASE_URL,
        max_retries=0,
        http_client=httpx2.Client(transport=SyncTransport(session)),
    )


def call_header(about: Mapping[str, Any], adapter: str | None) -> dict[str, str]:
    """The header that tells the session who calls, and which adapter is to answer."""
    return {CALL_HEADER: json.dumps({**about, "adapter": adapter})}


def caller_of(headers: Mapping[str, str]) -> dict[str, Any]:
    """What the caller says of itself; an SDK that sends the same request again counts it there too.

    Raises:
        InputError: a header that cannot be read.
    """
    try:
        about = json.loads(headers.get(CALL_HEADER, "{}"))
        again = int(headers.get("x-stainless-retry-count", 0))
    except ValueError as error:
        raise InputError(f"a header of the request cannot be read: {error}") from error
    if not isinstance(about, dict):
        raise InputError(f"{CALL_HEADER} must be a JSON object, got {about!r}")
    return {**about, "client_retry": again} if again else about


def _caller(request: httpx2.Request) -> Mapping[str, Any]:
    """See ``caller_of``.

    Raises:
        InputError: also of a request for anything but chat completions.
    """
    if request.method != "POST" or not request.url.path.endswith(_PATH):
        raise InputError(f"{request.method} {request.url.path} is not served to a rollout; only POST {_PATH} is")
    return caller_of(request.headers)


def _response(answer: wire.Response, request: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(
        answer.status,
        headers={"content-type": answer.content_type},
        content=b"".join(answer.events()),
        request=request,
    )
