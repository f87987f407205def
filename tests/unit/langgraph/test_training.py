"""A whole run over a graph, with a backend that trains one number."""

from __future__ import annotations

import pytest
from langchain_core.tools import tool
from langgraph.runtime import get_runtime
from langgraph.types import RetryPolicy

from art_core.errors import InputError
from art_core.loop.run import atrain
from art_core.loop.rundir import RunDir
from art_core.observe.ledger import Ledger
from art_core.observe.metrics import read_metrics
from art_integrations.langgraph import LangGraphAgent
from tests.unit.loop.fake import SCENARIOS, FakeBackend, config, quiet

from .graphs import END, START, Chat, StateGraph, create_agent, production_model


def retried():
    """A graph whose node fails after its model call, in the first attempt."""
    model = production_model()

    def node(state):
        reply = model.invoke(state["messages"])
        if get_runtime().execution_info.node_attempt == 1:
            raise RuntimeError("busy")
        return {"messages": [reply]}

    builder = StateGraph(Chat)
    builder.add_node("node", node, retry_policy=RetryPolicy(initial_interval=0.001, retry_on=RuntimeError))
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    return builder.compile()


def says_yes(trajectory, scenario):
    return float(trajectory.output["messages"][-1].content == "yes")


async def trained(tmp_path, graph, **options):
    agent = LangGraphAgent(graph, **options)
    return await atrain(
        agent, SCENARIOS, says_yes, backend=FakeBackend(), config=config(tmp_path, steps=2), progress=quiet()
    )


async def test_tokens_that_were_sampled_again_are_in_the_ledger_and_it_balances(tmp_path):
    result = await trained(tmp_path, retried())
    for row in read_metrics(result.run_dir / "metrics.jsonl"):
        if row["kind"] == "train":
            ledger = Ledger.from_dict(row["ledger"])
            ledger.check()
            assert 0 < ledger["superseded"].tokens < ledger["sampled"].tokens
            assert ledger["superseded"].rollouts == 0


@tool
def refund(order: str) -> str:
    """Pay an order back."""
    raise AssertionError("the real tool")


async def test_a_run_lists_the_tools_of_its_graph(tmp_path):
    result = await trained(tmp_path, create_agent(production_model(), [refund]), tools={"refund": "paid back"})
    assert RunDir.open(result.run_dir).read_training_record()["tools"] == {"refund": "stub"}


async def test_a_run_whose_graph_has_a_destructive_tool_does_not_begin(tmp_path):
    with pytest.raises(InputError, match="tool 'refund' would really run while the model explores"):
        await trained(tmp_path, create_agent(production_model(), [refund]))
