"""An OpenAI-compatible URL per rollout, for agents that run in other processes or are written in other languages.

One server on 127.0.0.1 answers for all rollouts of this process, in a thread of its own; it starts with the first rollout that
asks for a URL and ends with the process. Every rollout has a key that cannot be guessed, and its requests are answered by its
session, on the session's own loop.

What comes back for a request::

    of a rollout that runs        the turn, as one body or as server-sent events
    of one that is over           400, its limit error
    of one that is not there      404
    without its key               401
"""

from __future__ import annotations

import functools
import secrets
import socket
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from art_core.errors import ArtError, InputError

from . import wire
from .current import no_capture
from .session import Session
from .transports import caller_of

__all__ = ["Endpoint", "Line", "endpoint"]

_REMEMBERED = 10_000
"""How many rollouts that are over are still told apart from unknown ones."""


@dataclass(frozen=True, slots=True)
class Line:
    """Where a rollout is reached."""

    base_url: str
    key: str
    session: Session | None
    """None when the rollout is over."""
    over: wire.Response | None = None
    """What later requests are told."""


class Endpoint:
    """The server; it listens from the moment it is made."""

    def __init__(self) -> None:
        self._lines: OrderedDict[str, Line] = OrderedDict()
        self._lock = threading.Lock()
        listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        chat = Route("/{rollout_id:path}/v1/chat/completions", self._chat, methods=["POST"])
        other = Route("/{path:path}", _unknown, methods=["GET", "POST"])
        config = uvicorn.Config(
            Starlette(routes=[chat, other]), lifespan="off", log_level="error", access_log=False, ws="none"
        )
        server = uvicorn.Server(config)
        with no_capture():  # its thread belongs to no rollout
            threading.Thread(
                target=server.run, kwargs={"sockets": [listener]}, name="art-endpoint", daemon=True
            ).start()

    def open(self, session: Session) -> Line:
        """The line of a rollout, the same every time."""
        with self._lock:
            self._forget()
            name = session.rollout_id
            line = self._lines.get(name)
            if line is None or line.session is not session:
                line = Line(f"{self.url}/{quote(name, safe='')}/v1", secrets.token_urlsafe(24), session)
                self._lines[name] = line
            return line

    def _forget(self) -> None:
        """Keep no session of a rollout that is over, only what its late requests are told."""
        for name, line in self._lines.items():
            if line.session is not None and line.session.finished:
                self._lines[name] = Line(
                    line.base_url, line.key, None, wire.error_response(line.session.crossing.over())
                )
        while len(self._lines) > _REMEMBERED and next(iter(self._lines.values())).session is None:
            self._lines.popitem(last=False)

    async def _chat(self, request: Request) -> Response:
        name = request.path_params["rollout_id"]
        line = self._lines.get(name)
        if line is None:
            return _refused(404, f"no rollout {name!r} runs here; its URL is session.base_url, valid while it runs")
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not secrets.compare_digest(given.encode(), line.key.encode()):
            return _refused(401, f"the key of rollout {name!r} is another one; OPENAI_API_KEY of session.env holds it")
        if line.session is None:
            assert line.over is not None
            return _response(line.over)
        return _response(await _answer(line.session, await request.body(), request.headers))


async def _answer(session: Session, payload: bytes, headers: Mapping[str, str]) -> wire.Response:
    try:
        body = wire.decode(payload)
        about = {"model": str(body.get("model")), "provider": "http", **caller_of(headers)}
        adapter = session.adapter_for(about)
        if adapter is None:
            raise InputError(
                f"calls of model {about['model']!r} are not trained in rollout {session.rollout_id!r}, and its URL has no other "
                "model to answer them; send them to their own service"
            )
        return await session.crossing.on_loop(lambda: wire.handle(session, body, about={**about, "adapter": adapter}))
    except ArtError as error:
        return wire.error_response(error)


def _response(answer: wire.Response) -> Response:
    """A client is told not to send a failed request again: the rollout would count it twice."""
    headers = {} if answer.status == 200 else {"x-should-retry": "false"}
    return Response(b"".join(answer.events()), answer.status, headers, media_type=answer.content_type)


def _refused(status: int, message: str) -> Response:
    body: dict[str, Any] = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return _response(wire.Response(status=status, body={"error": body}))


async def _unknown(request: Request) -> Response:
    return _refused(404, f"{request.method} {request.url.path} is not served; only POST ROLLOUT/v1/chat/completions is")


@functools.cache
def endpoint() -> Endpoint:
    """The one of this process, started when it is first asked for."""
    return Endpoint()
