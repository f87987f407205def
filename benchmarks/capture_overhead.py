"""What a captured model call costs beside the model: ``python -m benchmarks.capture_overhead [--json]``.

A LangChain model with one tool is called in rollouts that a script answers at once. Of the time of a call are taken off what the policy takes
(rendering the prompt, reading the reply; measured in the same calls) and what the same call of a fake model takes that
LangChain runs without us. What is left is ours: the hook, the client that stands in, its requests and responses, the
session. Every rollout makes eight calls of a growing conversation. Times are those of the processor, over all threads, so that what else
the machine does counts for nothing; ``wall_ms`` is what the clock says.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

import art_core as art
from art_core.rollout.current import bind
from art_core.rollout.session import Session
from art_integrations.langgraph import install, uninstall
from benchmarks.common import print_json, spread

CALLS = 8
REPLY = "It is noon in Rome, and the sun is out; you may want to go for a walk."
WAYS = ("invoke", "stream", "ainvoke", "astream")


@tool
def get_time(city: str) -> str:
    """Tell the time in a city."""
    return f"It is noon in {city}."


class Fake(BaseChatModel):
    """Says ``REPLY`` at once, in a stream word by word."""

    @property
    def _llm_type(self) -> str:
        return "fake"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self.bind(tools=tools, **kwargs)

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(REPLY))])

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        return self._generate(messages)

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        for word in REPLY.split(" "):
            yield ChatGenerationChunk(message=AIMessageChunk(f"{word} "))

    async def _astream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        for chunk in self._stream(messages):
            yield chunk


class Timed:
    """A scripted policy, and the seconds it took."""

    def __init__(self) -> None:
        self._policy = art.ScriptedPolicy(lambda messages, tools: REPLY)
        self.seconds = 0.0

    async def complete(self, *args: Any) -> Any:
        begun = time.thread_time()
        try:
            return await self._policy.complete(*args)
        finally:
            self.seconds += time.thread_time() - begun


def talk(model: Any, way: str) -> None:
    """The calls of one rollout, by a sync method."""
    messages: list[Any] = []
    for number in range(CALLS):
        messages.append(HumanMessage(f"Question {number}: what time is it in Rome?"))
        if way == "invoke":
            messages.append(model.invoke(messages))
        else:
            messages.append(AIMessage("".join(chunk.text for chunk in model.stream(messages))))


async def atalk(model: Any, way: str) -> None:
    """The same by an async method."""
    messages: list[Any] = []
    for number in range(CALLS):
        messages.append(HumanMessage(f"Question {number}: what time is it in Rome?"))
        if way == "ainvoke":
            messages.append(await model.ainvoke(messages))
        else:
            messages.append(AIMessage("".join([chunk.text async for chunk in model.astream(messages)])))


def _talking(model: Any, way: str) -> Callable[[], Awaitable[None]]:
    """One conversation; a sync one in a thread, as LangGraph runs sync nodes."""
    return (lambda: atalk(model, way)) if way.startswith("a") else (lambda: asyncio.to_thread(talk, model, way))


async def _timed(conversations: Sequence[Callable[[], Awaitable[None]]]) -> tuple[float, float]:
    """Milliseconds of a call where all of ``conversations`` run at once, of the processor and on the clock."""
    wall, processor = time.perf_counter(), time.process_time()
    await asyncio.gather(*(conversation() for conversation in conversations))
    per_call = 1000 / (CALLS * len(conversations))
    return (time.process_time() - processor) * per_call, (time.perf_counter() - wall) * per_call


async def captured(way: str, rollouts: int) -> dict[str, float]:
    """Milliseconds of a captured call: all of it, the policy's part, and the clock's."""
    policy = Timed()
    model = ChatOpenAI(model="gpt-5-mini", api_key="none").bind_tools([get_time])  # type: ignore[arg-type]

    def one(number: int) -> Callable[[], Awaitable[None]]:
        session = Session(policy, art.Scenario("s", ""), rollout_id=f"r{number}")

        async def conversation() -> None:
            with bind(session):
                await _talking(model, way)()

        return conversation

    whole, wall = await _timed([one(number) for number in range(rollouts)])
    return {"wall": wall, "whole": whole, "policy": 1000 * policy.seconds / (CALLS * rollouts)}


async def alone(way: str, rollouts: int) -> float:
    """Milliseconds of a call of the fake model."""
    model = Fake().bind_tools([get_time])
    return (await _timed([_talking(model, way)] * rollouts))[0]


async def measure(way: str, rollouts: int, repeats: int) -> dict[str, Any]:
    """All figures of one way to call."""
    rows: dict[str, list[float]] = {name: [] for name in ("wall", "whole", "policy", "fake", "ours", "outside")}
    for repeat in range(repeats + 1):
        install()
        row = await captured(way, rollouts)
        hooked = await alone(way, rollouts)
        uninstall()
        row["fake"] = await alone(way, rollouts)
        row["ours"] = row["whole"] - row["policy"] - row["fake"]
        row["outside"] = hooked - row["fake"]
        if repeat:  # the first one warms up
            for name, value in row.items():
                rows[name].append(value)
    return {"way": way, "rollouts": rollouts, **{f"{name}_ms": spread(values) for name, values in rows.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description="What a captured model call costs beside the model.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()
    rows = []
    for rollouts in (1, 64):
        for way in WAYS:
            rows.append(asyncio.run(measure(way, rollouts, arguments.repeats)))
            if not arguments.json:
                told = {name: value["median"] for name, value in rows[-1].items() if isinstance(value, dict)}
                print(way, rollouts, told, file=sys.stderr)
    worst = max(row["ours_ms"]["median"] for row in rows)
    print_json({"schema": 1, "calls": CALLS, "worst_ms": worst, "rows": rows})


if __name__ == "__main__":
    main()
