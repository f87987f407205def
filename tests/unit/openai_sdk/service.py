"""A chat-completions service on loopback that always says the same, for models that are not trained."""

from __future__ import annotations

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CHAT = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-5-mini",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Fair."}}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
}
RESPONSE = {
    "id": "r1",
    "object": "response",
    "created_at": 1,
    "model": "gpt-5-mini",
    "status": "completed",
    "output": [
        {
            "type": "message",
            "id": "m1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Fair.", "annotations": []}],
        }
    ],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "usage": {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7},
}
_CHUNKS = [
    {"delta": {"role": "assistant", "content": "Fa"}, "finish_reason": None},
    {"delta": {"content": "ir."}, "finish_reason": None},
    {"delta": {}, "finish_reason": "stop"},
]


def _call(name, arguments):
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if body.get("model") == "broken":
            return self._send(400, "application/json", json.dumps({"error": {"message": "no such model"}}))
        if body.get("stream"):
            chunks = [{**CHAT, "object": "chat.completion.chunk", "choices": [{"index": 0, **c}]} for c in _CHUNKS]
            text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
            return self._send(200, "text/event-stream", text)
        if body.get("model") == "careless":
            message = {"role": "assistant", "content": None, "tool_calls": [_call("look", "{"), _call("look", "{}")]}
            careless = {**CHAT, "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}]}
            return self._send(200, "application/json", json.dumps(careless))
        answer = RESPONSE if self.path.endswith("/responses") else CHAT
        return self._send(200, "application/json", json.dumps(answer))

    def _send(self, status, kind, text):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args): ...


@contextlib.contextmanager
def service():
    """The options of a client of it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield {"base_url": f"http://127.0.0.1:{server.server_port}/v1", "api_key": "none", "max_retries": 0}
    finally:
        server.shutdown()
        server.server_close()
