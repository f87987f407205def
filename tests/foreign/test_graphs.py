"""Graphs as public tutorials build them, without a word of this project, run as they are: what was captured of each, literally."""

from __future__ import annotations

import json
import re

import pytest

from tests.docs.blocks import ROOT
from tests.unit.langgraph.running import asked, callers, forks
from tests.unit.langgraph.running import run as run_graph

from .loading import ENVIRONMENT, GRAPHS, NAMES, load

CAPTURED = {
    "agentic_rag": (["ask_or_answer", "retrieve", "rewrite", "ask_or_answer", "retrieve", "answer"], 245),
    "approval": (["model", "model", "model"], 190),
    "chatbot": (["chatbot"], 9),
    "extraction": (["read", "read"], 186),
    "map_reduce": (["split", "slogan", "slogan", "choose"], 60),
    "plan_execute": (["plan", "model", "model", "model", "model", "replan"], 238),
    "react_search": (["agent", "agent"], 105),
    "reflection": (["write", "criticise", "write"], 48),
    "sql_agent": (["write_query", "check_query", "write_query"], 255),
    "supervisor": (["supervisor", "model", "model", "supervisor", "model", "model", "supervisor"], 521),
    "support_swarm": (["model", "model", "model", "model"], 258),
}
"""Of each graph: the nodes that called, one a turn, and how many tokens are trained: those that were sampled."""


@pytest.fixture(autouse=True)
def _no_service(monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


async def run(name, replies, scenario, **options):
    """The trajectory, held against ``CAPTURED``; ``running.run`` has checked that every sampled token is trained once.

    The tools that are named as destructive, such as ``refund``, only change what the graph made up itself."""
    module = load(name)
    trajectory = await run_graph(module.graph, replies, scenario, allow_destructive=True, **options)
    assert trajectory.error is None
    trained = sum(int(row.mask.sum()) for row in trajectory.samples())
    assert trained == trajectory.sampled_tokens
    assert (callers(trajectory), trained) == CAPTURED[name]
    return module, trajectory


def call(tool, /, **arguments):
    return [(tool, arguments)]


async def test_chatbot():
    turns = [
        ("user", "Hello"),
        ("ai", "Welcome."),
        ("user", "Are you open?"),
        ("ai", "Until six."),
        ("user", "Thanks!"),
    ]
    _, trajectory = await run("chatbot", ["See you."], {"messages": turns})
    assert asked(trajectory)[0][0] == ("system", "You are a patient guide of the city museum.")
    assert [text for _, text in asked(trajectory)[0][1:]] == ["Are you open?", "Until six.", "Thanks!"]
    assert trajectory.output["messages"][-1].content == "See you."
    assert len(trajectory.output["messages"]) == 6


async def test_react_search():
    script = [call("search", query="deepest lake of the world"), "Baikal."]
    _, trajectory = await run("react_search", script, "Which lake is the deepest?")
    assert asked(trajectory)[1][-1] == ("tool", "The deepest lake is Baikal with 1642 metres.")
    assert trajectory.output["messages"][-1].content == "Baikal."
    assert len(trajectory.samples()) == 1


async def test_agentic_rag():
    no, yes = '{"relevant": "no"}', '{"relevant": "yes"}'
    script = [
        call("find_notes", query="plants"),
        no,
        "Which plants grow in shade?",
        call("find_notes", query="grow in shade"),
        yes,
        "Ferns.",
    ]
    _, trajectory = await run("agentic_rag", script, "What can I plant under trees?")
    assert asked(trajectory)[5][-1][1].endswith("Note: Ferns grow in shade and want moist soil.")
    assert trajectory.output["messages"][-1].content == "Ferns."
    assert [len(turn.tools) for turn in trajectory.turns] == [1, 0, 0, 1, 0, 0]


async def test_plan_execute():
    script = [
        json.dumps({"steps": ["Add 2 and 3.", "Multiply the sum by 4."]}),
        call("add", a=2, b=3),
        "5",
        call("multiply", a=5, b=4),
        "20",
        json.dumps({"answer": "20", "steps": []}),
    ]
    _, trajectory = await run("plan_execute", script, {"task": "(2 + 3) * 4"})
    assert trajectory.output["answer"] == "20"
    assert trajectory.output["done"] == ["Add 2 and 3.: 5", "Multiply the sum by 4.: 20"]
    assert callers(trajectory, "model") == ["gpt-5", *["gpt-5-mini"] * 4, "gpt-5"]


async def test_reflection():
    script = ["Pool shut.", "Say until when.", "Pool shut until May."]
    _, trajectory = await run("reflection", script, "The pool is being repaired.")
    assert trajectory.output["messages"][-1].content == "Pool shut until May."
    assert asked(trajectory)[1][-1] == ("user", "Pool shut.")
    assert forks(trajectory)[2] is None


async def test_map_reduce():
    def answer(messages, tools):
        text = messages[-1].text
        if text.startswith("Name"):
            return '{"parts": ["wheels", "bells"]}'
        return '{"number": 1}' if text.startswith("Choose") else f"{text.removeprefix('A slogan for ').title()}!"

    _, trajectory = await run("map_reduce", answer, {"topic": "bicycles"})
    assert trajectory.output["slogans"] == ["Wheels!", "Bells!"]
    assert trajectory.output["best"] == "Bells!"


async def test_supervisor():
    script = [
        call("Route", worker="researcher"),
        [("population", {"country": "Norway"}), ("population", {"country": "Iceland"})],
        "5.6 and 0.4 million.",
        call("Route", worker="calculator"),
        call("add", a=5.6, b=0.4),
        "6.0 million.",
        call("Route", worker="finish"),
    ]
    _, trajectory = await run("supervisor", script, "How many people live in Norway and Iceland?")
    assert callers(trajectory, "agent") == [None, "researcher", "researcher", None, "calculator", "calculator", None]
    assert trajectory.output["messages"][-1].content == "6.0 million."


async def test_sql_agent():
    right = "SELECT name FROM ships ORDER BY length_m DESC LIMIT 1"
    script = [
        call("run_query", query="SELECT name FROM ships ORDER BY length"),
        call("run_query", query=right),
        "The Meridian.",
    ]
    _, trajectory = await run("sql_agent", script, "Which ship is the longest?")
    assert asked(trajectory)[2][-1] == ("tool", "[('Meridian',)]")
    assert trajectory.turns[1].metadata["overridden"]["tool_choice"] == "required"
    assert trajectory.output["messages"][-1].content == "The Meridian."


async def test_approval():
    script = [call("find_address", name="Ada"), call("send_mail", to="ada@example.org", text="Late."), "Sent."]
    edited = {"name": "send_mail", "args": {"to": "ada@example.org", "text": "Late, sorry."}}

    def decide(interrupts):
        assert interrupts[0].value["action_requests"][0]["args"] == {"to": "ada@example.org", "text": "Late."}
        return {"decisions": [{"type": "edit", "edited_action": edited}]}

    module, trajectory = await run("approval", script, "Tell Ada that we are late.", on_interrupt=decide)
    assert module.sent == [("ada@example.org", "Late, sorry.")]
    assert trajectory.output["messages"][-1].content == "Sent."


async def test_support_swarm():
    script = [
        call("flight_status", number="KL7"),
        call("hand_to_billing"),
        call("refund", booking="B42"),
        "120 euros are on their way.",
    ]
    _, trajectory = await run("support_swarm", script, "KL7 is late, I want my money back. B42.")
    assert callers(trajectory, "agent") == ["flights", "flights", "billing", "billing"]
    assert trajectory.output["active"] == "billing"
    assert trajectory.output["messages"][-1].content == "120 euros are on their way."


async def test_extraction():
    script = [call("Invoice", number="17", total=12.5), call("Invoice", number="INV-17", total=12.5)]
    _, trajectory = await run("extraction", script, "Please pay 12.50 for invoice 17.")
    assert (trajectory.output["invoice"].number, trajectory.output["tries"]) == ("INV-17", 2)
    assert asked(trajectory)[1][-1][1].startswith("That is not valid: number; String should match pattern")
    assert forks(trajectory) == [None, None]


@pytest.mark.parametrize("name", NAMES)
def test_no_graph_knows_of_this_project(name):
    assert (
        re.findall(r"\b(art\w*|policy|rollout|traj\w*|reward\w*|train\w*)\b", (GRAPHS / f"{name}.py").read_text()) == []
    )


def test_the_table_of_the_documentation_says_what_was_captured():
    text = (ROOT / "docs" / "langgraph.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| .+ \| (\d+) \| (.+) \| (\d+) \|$", text, re.MULTILINE)
    told = {name: (nodes.split(", "), int(tokens)) for name, _, nodes, tokens in rows}
    assert told == CAPTURED
    assert {name: int(turns) for name, turns, _, _ in rows} == {n: len(nodes) for n, (nodes, _) in CAPTURED.items()}
    assert sorted(told) == NAMES
