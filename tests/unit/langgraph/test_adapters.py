"""Graphs whose agents are trained as adapters of their own."""

from langgraph.graph import END, START, StateGraph

import art_core as art
from art_integrations.langgraph import LangGraphAgent
from tests.unit.langgraph.graphs import Chat, production_model

TRAIN = {"planner": "plans", "writer": "texts"}


def team():
    """A planner, and a writer that is asked with all that was said before."""
    model = production_model()

    def speak(state: Chat):
        return {"messages": [model.invoke(state["messages"])]}

    def instruct(state: Chat):
        return {"messages": [("user", "now write")]}

    builder = StateGraph(Chat)
    builder.add_node("planner", speak)
    builder.add_node("instruct", instruct)
    builder.add_node("writer", speak)
    builder.add_edge(START, "planner")
    builder.add_edge("planner", "instruct")
    builder.add_edge("instruct", "writer")
    builder.add_edge("writer", END)
    return builder.compile()


async def rollout(train):
    policy = art.ScriptedPolicy(["a plan", "a text"])
    return await art.rollout(LangGraphAgent(team(), train=train), art.Scenario("s", "go"), policy)


async def test_each_node_is_answered_by_its_adapter():
    trajectory = await rollout(TRAIN)
    told = [(turn.metadata["call"]["node"], str(turn.versions[0].version)) for turn in trajectory.turns]
    assert told == [("planner", "plans@0"), ("writer", "texts@0")]


async def test_every_adapter_has_a_row_of_its_own_with_its_own_tokens():
    trajectory = await rollout(TRAIN)
    text = art.ScriptedPolicy([]).renderer.text
    trained = {row.adapter: text(row.token_ids[row.mask].tolist()) for row in trajectory.samples()}
    assert trained == {"plans": "a plan<|im_end|>", "texts": "a text<|im_end|>"}


async def test_what_the_planner_said_is_context_of_the_writer_token_by_token():
    trajectory = await rollout(TRAIN)
    plan, text = trajectory.turns
    assert text.parent == plan.id
    assert text.fork is None
    path = trajectory.graph.path(text.id)
    assert path[: len(trajectory.graph.path(plan.id))] == trajectory.graph.path(plan.id)


async def test_names_may_share_an_adapter():
    trajectory = await rollout({"planner": "both", "writer": "both"})
    (row,) = trajectory.samples()
    assert row.adapter == "both"
    assert row.trained_tokens == trajectory.sampled_tokens


def test_the_agent_tells_its_adapters():
    assert LangGraphAgent(team(), train=TRAIN).adapters == ("plans", "texts")
    assert LangGraphAgent(team()).adapters == ("default",)
