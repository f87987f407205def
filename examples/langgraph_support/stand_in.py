"""A stand-in for the hosted model of the support agent, so that the example runs without a key and without a network.

    python stand_in.py --port 8765
    OPENAI_BASE_URL=http://127.0.0.1:8765/v1 python my_program_that_runs_the_graph.py

It speaks the one part of the OpenAI API that the graph uses (chat completions, not streamed) and answers by rules instead of
by a language model: it finds the order, product or customer in the question, calls the tool for it, and puts what the tool
said into a sentence. It knows nothing of the database. What it is asked beyond the wordings of ``questions.jsonl`` it may get wrong.
"""

import argparse
import json
import re
import time
import uuid
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

PRODUCT = re.compile(r"\b(?:walking|winter|trail|summit|river|desert) \w+")
CUSTOMER = re.compile(r"(?:of|am|did) ([A-Z]\w+ [A-Z]\w+)")

RULES = (
    (r"return|send(?:ing)? back", "ask_returns"),
    (r"\border\b", "find_order"),
    (r"ticket|case|problem", "find_ticket"),
    ("", "find_product"),
)
"""What a question contains → the tool for it; the first that fits."""

SENTENCES = (
    (r"status (.+), arrives (.+)", "The order is {} and arrives on {}."),
    (r"price (.+), stock (\d+)", "The price is {} and {} are in stock."),
    (r"about (.+), handled by (\w+)", "The ticket is about {} and {} handles it."),
    (r"within (\d+) days, fee (.+)", "It can be returned within {} days for {}."),
    (r"(.+)", "{}"),
)
"""What a tool said → how it is put; the first that fits. What the specialist said is passed on."""


def reply(messages: list[dict[str, Any]], offered: list[str]) -> dict[str, Any]:
    """The next message of the assistant."""
    if messages[-1]["role"] == "tool":
        return {"role": "assistant", "content": _sentence(messages[-1]["content"])}
    question = next(message["content"] for message in messages if message["role"] == "user")
    name, arguments = _call(question, offered)
    call = {"id": f"call_{uuid.uuid4().hex[:8]}", "type": "function"}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{**call, "function": {"name": name, "arguments": json.dumps(arguments)}}],
    }


def _call(question: str, offered: list[str]) -> tuple[str, dict[str, Any]]:
    found = PRODUCT.search(question)
    product = found.group() if found else ""
    if "return_terms" in offered:
        return "return_terms", {"product": product}
    name = next(tool for pattern, tool in RULES if re.search(pattern, question))
    if name == "ask_returns":
        return name, {"question": question}
    if name == "find_order":
        number = re.search(r"\d+", question)
        return name, {"number": int(number.group()) if number else 0}
    if name == "find_ticket":
        customer = CUSTOMER.search(question)
        return name, {"customer": customer.group(1) if customer else ""}
    return name, {"name": product}


def _sentence(known: str) -> str:
    found, sentence = next((found, text) for pattern, text in SENTENCES if (found := re.search(pattern, known)))
    return sentence.format(*found.groups())


async def complete(request: Request) -> JSONResponse:
    """``POST /v1/chat/completions``."""
    body = await request.json()
    if body.get("stream"):
        return JSONResponse({"error": {"message": "this stand-in does not stream"}}, status_code=400)
    message = reply(body["messages"], [tool["function"]["name"] for tool in body.get("tools", ())])
    usage = {
        "prompt_tokens": len(json.dumps(body["messages"])) // 4,
        "completion_tokens": len(json.dumps(message)) // 4,
    }
    return JSONResponse(
        {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body["model"],
            "choices": [
                {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
            ],
            "usage": {**usage, "total_tokens": sum(usage.values())},
        }
    )


app = Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])


def main() -> None:
    parser = argparse.ArgumentParser(description="Stand in for the hosted model of the support agent.")
    parser.add_argument("--port", type=int, default=8765)
    uvicorn.run(app, host="127.0.0.1", port=parser.parse_args().port, log_level="warning")


if __name__ == "__main__":
    main()
