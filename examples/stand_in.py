"""A stand-in for the hosted model of an example, so that the example runs without a key and without a network.

    cd langgraph_support
    python ../stand_in.py --port 8765
    OPENAI_BASE_URL=http://127.0.0.1:8765/v1 python my_program_that_runs_the_agent.py

It speaks the one part of the OpenAI API that the agents here use (chat completions, not streamed) and answers by the ``reply`` of
``rules.py`` in the current directory instead of by a language model: of the messages so far and the names of the tools, a text or the
name and the arguments of a call.
"""

import argparse
import importlib
import json
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

Reply = Callable[[list[dict[str, Any]], list[str]], str | tuple[str, dict[str, Any]]]


def service(reply: Reply) -> Starlette:
    """``POST /v1/chat/completions``, answered by ``reply``."""

    async def complete(request: Request) -> JSONResponse:
        body = await request.json()
        if body.get("stream"):
            return JSONResponse({"error": {"message": "this stand-in does not stream"}}, status_code=400)
        said = reply(body["messages"], [tool["function"]["name"] for tool in body.get("tools", ())])
        return JSONResponse(_completion(body, _message(said)))

    return Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])


def _message(said: str | tuple[str, dict[str, Any]]) -> dict[str, Any]:
    if isinstance(said, str):
        return {"role": "assistant", "content": said}
    name, arguments = said
    call = {"id": f"call_{uuid.uuid4().hex[:8]}", "type": "function"}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{**call, "function": {"name": name, "arguments": json.dumps(arguments)}}],
    }


def _completion(body: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    usage = {
        "prompt_tokens": len(json.dumps(body["messages"])) // 4,
        "completion_tokens": len(json.dumps(message)) // 4,
    }
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": body["model"],
        "choices": [
            {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
        ],
        "usage": {**usage, "total_tokens": sum(usage.values())},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Stand in for the hosted model of the example in this directory.")
    parser.add_argument("--port", type=int, default=8765)
    arguments = parser.parse_args()
    sys.path.insert(0, str(Path.cwd()))
    uvicorn.run(
        service(importlib.import_module("rules").reply), host="127.0.0.1", port=arguments.port, log_level="warning"
    )


if __name__ == "__main__":
    main()
