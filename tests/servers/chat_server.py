"""A chat-completions service on loopback that says what a script tells it, whole or as a stream."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[dict[str, Any]], Any]
"""From the body of a request: a text, a message, or a number: the HTTP status of a failure."""
USAGE = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}


@dataclass
class ChatServer:
    """What it was asked: the bodies and the Authorization headers of all requests."""

    url: str
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """A message that calls a tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"content": None, "tool_calls": [{"id": "call_7", "type": "function", "function": function}]}


@contextlib.contextmanager
def chat_server(answer: Answer) -> Iterator[ChatServer]:
    """The service, at ``url``, while the block runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(answer, told := ChatServer(url="")))
    server.daemon_threads = True
    told.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(answer: Answer, told: ChatServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            told.requests.append(body)
            told.keys.append(self.headers["authorization"])
            said = answer(body)
            if isinstance(said, int):
                self._send(said, "application/json", json.dumps({"error": {"message": "scripted failure"}}).encode())
                return
            message = {"role": "assistant", **({"content": said} if isinstance(said, str) else said)}
            if body.get("stream"):
                self._send(200, "text/event-stream", b"".join(_events(message, body)))
            else:
                self._send(200, "application/json", json.dumps(_completion(message)).encode())

        def _send(self, status: int, kind: str, data: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: Any) -> None:
            pass

    return Handler


def _completion(message: dict[str, Any]) -> dict[str, Any]:
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return {"id": "c1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": USAGE}


def _events(message: dict[str, Any], body: dict[str, Any]) -> Iterator[bytes]:
    calls = [{"index": number, **one} for number, one in enumerate(message.get("tool_calls") or ())]
    deltas = [{"role": "assistant", "content": ""}, *({"content": word} for word in _pieces(message["content"]))]
    deltas += [{"tool_calls": calls}] if calls else []
    for delta in deltas:
        yield _event([{"index": 0, "delta": delta, "finish_reason": None}])
    yield _event([{"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}])
    if (body.get("stream_options") or {}).get("include_usage"):
        yield _event([], usage=USAGE)
    yield b"data: [DONE]\n\n"


def _pieces(text: str | None) -> list[str]:
    return [] if not text else [text[:2], text[2:]]


def _event(choices: list[dict[str, Any]], **more: Any) -> bytes:
    chunk = {"id": "c1", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": choices, **more}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"
