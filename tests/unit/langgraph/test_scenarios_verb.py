"""``art scenarios langgraph``: requests for a graph, written from its tools and tried with a model in the place of its own."""

from __future__ import annotations

import json

from art_core.cli.main import main
from art_core.scenario import load_scenarios
from tests.servers.roles import Roles, roles_server

GRAPH = """
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI


def find_order(number: int) -> str:
    \"\"\"Finds an order.\"\"\"
    return "on its way"


graph = create_agent(ChatOpenAI(model="m", api_key="none", base_url="http://127.0.0.1:9"), [find_order])
"""


def orders(wanted, prompt):
    tools = ["find_order"] if "find_order" in prompt else []
    return [{"request": f"Where is order {n}?", "difficulty": 1, "tools": tools} for n in range(wanted)]


def test_a_graph_is_asked_about_its_tools(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "shop_graph.py").write_text(GRAPH)
    roles = Roles(writes=orders, does=lambda messages: "It is on its way.", grades=lambda context, attempt: 1.0)
    with roles_server(roles) as server:
        words = ["scenarios", "langgraph", "shop_graph:graph", "--about", "Support of a shop"]
        assert main([*words, "--author", f"m@{server.url}", "--generate", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["file"], told["scenarios"]) == ("scenarios-shop_graph.jsonl", 3)
    prompt = server.requests[0]["messages"][-1]["content"]
    assert "Support of a shop" in prompt
    scenario = load_scenarios(tmp_path / "scenarios-shop_graph.jsonl")[0]
    assert (scenario.input, scenario.metadata["dry_run"]["score"]) == ("Where is order 0?", 1.0)
    assert scenario.metadata["tools"] == ["find_order"]
