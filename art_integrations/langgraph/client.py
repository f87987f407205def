"""What LangChain's OpenAI model takes for the SDK's chat completions: calls go to a rollout's session as they are, and turns come
back as plain objects. The SDK's own requests and responses would take several times as long as all the rest of a call.

Where the SDK does more than send (``parse`` and ``stream`` of a response format that is a class), its client does it, over
the same session.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import httpx2
import openai

from art_core.rollout import wire
from art_core.rollout.session import Session
from art_core.rollout.transports import BASE_URL, CALL_HEADER, answer_in_thread, answer_on_loop

__all__ = ["clients_for"]


def clients_for(session: Session) -> dict[str, Any]:
    """The clients of a ``ChatOpenAI`` whose calls are turns of ``session``, by the names of its fields."""
    return {
        "client": _Completions(session),
        "async_client": _AsyncCompletions(session),
        "root_client": _Sdk(session, "openai_sync"),
        "root_async_client": _Sdk(session, "openai"),
    }


class _Completions:
    """In the place of ``OpenAI().chat.completions``."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def with_raw_response(self) -> _Raw:
        return _Raw(self)

    def create(self, **payload: Any) -> Any:
        """A completion, or, of ``stream``, its chunks.

        Raises:
            openai.APIStatusError: what the SDK raises for the session's error.
        """
        body, about = _request(payload)
        return _checked(answer_in_thread(self._session, body, lambda: about, logprobs=False))


class _AsyncCompletions:
    """In the place of ``AsyncOpenAI().chat.completions``."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def with_raw_response(self) -> _AsyncRaw:
        return _AsyncRaw(self)

    async def create(self, **payload: Any) -> Any:
        """See ``_Completions.create``."""
        body, about = _request(payload)
        return _checked(await answer_on_loop(self._session, body, lambda: about, logprobs=False))


class _Raw:
    def __init__(self, completions: _Completions) -> None:
        self._completions = completions

    def create(self, **payload: Any) -> _Parsed:
        return _Parsed(self._completions.create(**payload))


class _AsyncRaw:
    def __init__(self, completions: _AsyncCompletions) -> None:
        self._completions = completions

    async def create(self, **payload: Any) -> _Parsed:
        return _Parsed(await self._completions.create(**payload))


class _Parsed:
    """A response that was read already."""

    headers: Mapping[str, str] = {}

    def __init__(self, body: Any) -> None:
        self._body = body

    def parse(self) -> Any:
        return self._body


class _Chunks(contextlib.AbstractContextManager[Any], contextlib.AbstractAsyncContextManager[Any]):
    """A stream, sync and async."""

    def __init__(self, chunks: tuple[dict[str, Any], ...]) -> None:
        self._chunks = chunks

    def __exit__(self, *error: object) -> None: ...

    async def __aexit__(self, *error: object) -> None: ...

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._chunks)

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        for chunk in self._chunks:
            yield chunk


class _Sdk:
    """The SDK's client of a session, made when it is first used."""

    def __init__(self, session: Session, name: str) -> None:
        self._session, self._name = session, name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(getattr(self._session, self._name), attribute)


def _request(payload: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The body, free of objects that the graph may change later, and what is known about the caller.

    ``extra_headers``, ``extra_body``, ``extra_query`` and ``timeout`` are for the SDK and mean here what they mean there; there is
    no URL to give a query to, and the limits of the rollout hold in place of a timeout.
    """
    headers, body, _, _ = (
        payload.pop(name, None) for name in ("extra_headers", "extra_body", "extra_query", "timeout")
    )
    return json.dumps({**payload, **(body or {})}), json.loads((headers or {}).get(CALL_HEADER, "{}"))


def _checked(answer: wire.Response) -> Any:
    if answer.status >= 400:
        assert answer.body is not None
        raise _status_error(answer.status, answer.body)
    return _Chunks(answer.stream) if answer.body is None else answer.body


def _status_error(status: int, body: dict[str, Any]) -> openai.APIStatusError:
    response = httpx2.Response(status, json=body, request=httpx2.Request("POST", f"{BASE_URL}/chat/completions"))
    kind = openai.BadRequestError if status == 400 else openai.InternalServerError
    return kind(f"Error code: {status} - {body}", response=response, body=body["error"])
