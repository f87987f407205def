import time

import pytest

from art_core.messages import Message, ToolCall
from art_core.scenario import Scenario
from art_integrations.mcp import McpAgent
from tests.servers.processes import rich


class FakeTurn:
    def __init__(self, number, reply):
        self.id = f"t{number}"
        self.reply = reply


class FakeSession:
    """Replays replies; keeps what the agent sent and recorded."""

    def __init__(self, *replies):
        self.replies = list(replies)
        self.events = []
        self.requests = []
        self.checks = 0

    async def turn(self, messages, tools=(), **params):
        self.requests.append((list(messages), tuple(tools)))
        return FakeTurn(len(self.requests), self.replies.pop(0))

    def record_tool(self, event):
        self.events.append(event)

    def check_tool_call(self):
        self.checks += 1

    def elapsed(self):
        return time.monotonic()


@pytest.fixture
def replies():
    """A session that answers with the given replies: text, a Message, or (tool, JSON arguments) pairs."""

    def message(number, reply):
        if isinstance(reply, str):
            return Message(role="assistant", content=reply)
        if isinstance(reply, Message):
            return reply
        calls = [ToolCall(id=f"c{number}.{at}", name=name, arguments=text) for at, (name, text) in enumerate(reply)]
        return Message(role="assistant", tool_calls=tuple(calls))

    return lambda *given: FakeSession(*(message(number, reply) for number, reply in enumerate(given)))


@pytest.fixture
def agent():
    """An agent of the rich server: ``agent(server options..., keyword=...)``."""
    return lambda *options, **more: McpAgent([rich(*options)], **{"call_timeout": 10.0, **more})


@pytest.fixture
def scenario():
    return Scenario("s", "do it")
