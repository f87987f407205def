"""A graph in production: told only where its model is served now, it sends what it did in training, token for token."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import art_core as art
from art_core.rollout import wire
from art_core.rollout.session import Session
from art_integrations.langgraph import LangGraphAgent

from .loading import ENVIRONMENT, load


def answer(messages, tools):
    """The same reply to the same conversation, as of a model that is asked greedily."""
    said = messages[-1].text
    if "Does the note help?" in said:
        return '{"relevant": "yes"}' if "Ferns" in said else '{"relevant": "no"}'
    if tools:
        return [("find_notes", {"query": "shade" if "shade" in said else "plants"})]
    return "Ferns." if said.startswith("Answer") else "Which plants grow in shade?"


@contextlib.contextmanager
def served(policy):
    """An OpenAI-compatible service that renders every request by itself, as any server does; its URL, and the prompts it saw."""
    prompts = []

    async def reply(body):
        done = await wire.handle(Session(policy, art.Scenario("s", ""), rollout_id="served"), body)
        message = done.body["choices"][0]["message"]
        del message["id"]  # that of a turn, of which this server has one a session
        for call in message.get("tool_calls", ()):
            call["id"] = f"call-{len(prompts)}"
        return done

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            done = asyncio.run(reply(self.rfile.read(int(self.headers["content-length"]))))
            prompts.append(done.body["prompt_token_ids"])
            data = json.dumps(done.body).encode()
            self.send_response(done.status)
            self.send_header("content-type", done.content_type)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args): ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", prompts
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def environment(monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


async def test_a_served_model_sees_the_tokens_it_was_trained_on(environment):
    question = "What can I plant under trees?"
    agent = LangGraphAgent(load("agentic_rag").graph)
    trajectory = await art.rollout(agent, art.Scenario("s", question), art.ScriptedPolicy(answer))
    graph = trajectory.graph
    trained = [graph.path(turn.id)[: -len(turn.completion_ids)] for turn in trajectory.turns]
    with served(art.ScriptedPolicy(answer)) as (url, prompts):
        environment.setenv("OPENAI_BASE_URL", url)
        production = load("agentic_rag").graph
        state = await production.ainvoke({"messages": [("user", question)]})
    assert state["messages"][-1].content == trajectory.output["messages"][-1].content == "Ferns."
    assert len(prompts) == 6
    assert prompts == trained
