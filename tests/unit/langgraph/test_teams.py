"""Several agents in one graph: supervisor, swarm, deep agents; every turn is its agent's."""

from __future__ import annotations

import pytest
from deepagents import create_deep_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph_supervisor import create_supervisor
from langgraph_swarm import create_handoff_tool, create_swarm

from tests.unit.rollout.reading import said

from .graphs import create_agent, get_time, production_model
from .running import asked, callers, forks, run

pytestmark = pytest.mark.filterwarnings("ignore:.*create_react_agent has been moved")
CALL = [("get_time", {"city": "Rome"})]


class Lead(GenericFakeChatModel):
    """A model of the graph's own that is not trained."""

    def bind_tools(self, tools, **options):
        return self


def supervised():
    clock = create_agent(production_model(), [get_time], name="clock", system_prompt="You tell the time.")
    poet = create_agent(production_model(), [], name="poet", system_prompt="You write verse.")
    return create_supervisor([clock, poet], model=production_model(), prompt="You lead.").compile()


SUPERVISED = [
    [("transfer_to_clock", {})],
    CALL,
    "It is noon.",
    [("transfer_to_poet", {})],
    "Noon is bright.",
    "Noon in Rome, and bright.",
]


async def test_a_supervisor_hands_over_and_gets_back():
    trajectory = await run(supervised(), SUPERVISED)
    assert trajectory.error is None
    assert callers(trajectory, "agent") == ["supervisor", "clock", "clock", "supervisor", "poet", "supervisor"]
    assert said(trajectory)[2] == "It is noon."
    assert asked(trajectory)[1][0] == ("system", "You tell the time.")
    assert asked(trajectory)[4][0] == ("system", "You write verse.")
    assert trajectory.output["messages"][-1].content == "Noon in Rome, and bright."


async def test_each_agent_of_a_supervisor_is_its_own_row_which_grows():
    trajectory = await run(supervised(), SUPERVISED)
    supervisors = [turn.id for turn in trajectory.turns if turn.metadata["call"]["agent"] == "supervisor"]
    parents = {turn.id: turn.parent for turn in trajectory.turns}
    assert [parents[turn] for turn in supervisors] == [None, "t0", "t3"]
    assert parents["t2"] == "t1"
    reasons = [fork for fork in forks(trajectory) if fork]
    assert set(reasons) <= {"a new conversation", "other tools are offered"}
    assert len(trajectory.samples()) == 3


@pytest.mark.parametrize("agent", ["clock", "poet"])
async def test_one_agent_of_a_supervisor_may_be_trained_alone(agent):
    call = {"name": f"transfer_to_{agent}", "args": {}, "id": "c1"}
    boss = Lead(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("Done.")]))
    workers = [create_agent(production_model(), [], name=name, system_prompt=name) for name in ("clock", "poet")]
    graph = create_supervisor(workers, model=boss).compile()
    trajectory = await run(graph, ["My part."], train=agent)
    assert trajectory.error is None
    assert said(trajectory) == ["My part."]
    assert callers(trajectory, "agent") == [agent]
    assert trajectory.output["messages"][-1].content == "Done."
    assert trajectory.metrics["environment_model_calls"] == 2


async def test_a_swarm_hands_the_conversation_over():
    clock = create_agent(
        production_model(), [get_time, create_handoff_tool(agent_name="poet")], name="clock", system_prompt="Clock."
    )
    poet = create_agent(
        production_model(), [create_handoff_tool(agent_name="clock")], name="poet", system_prompt="Poet."
    )
    graph = create_swarm([clock, poet], default_active_agent="clock").compile()
    replies = [CALL, [("transfer_to_poet", {})], [("transfer_to_clock", {})], "It is noon."]
    trajectory = await run(graph, replies)
    assert trajectory.error is None
    assert callers(trajectory, "agent") == ["clock", "clock", "poet", "clock"]
    assert asked(trajectory)[2][0] == ("system", "Poet.")
    assert ("tool", "It is noon in Rome.") in asked(trajectory)[2]
    assert forks(trajectory) == [None, None, "a new conversation", None]
    assert trajectory.turns[3].parent == "t1"
    assert len(trajectory.samples()) == 2


def deep(**options):
    helper = {
        "name": "clock",
        "description": "Tells the time.",
        "system_prompt": "You are a clock.",
        "tools": [get_time],
    }
    return create_deep_agent(model=production_model(), system_prompt="You lead.", subagents=[helper], **options)


DELEGATED = [
    [("write_todos", {"todos": [{"content": "ask the clock", "status": "in_progress"}]})],
    [("task", {"description": "Time in Rome?", "subagent_type": "clock"})],
    CALL,
    "It is noon in Rome.",
    "Noon.",
]


async def test_a_deep_agent_plans_and_delegates():
    trajectory = await run(deep(), DELEGATED)
    assert trajectory.error is None
    assert said(trajectory)[3:] == ["It is noon in Rome.", "Noon."]
    assert asked(trajectory)[2][-1] == ("user", "Time in Rome?")
    assert asked(trajectory)[4][-1] == ("tool", "It is noon in Rome.")
    assert [space.split(":")[0] for space in callers(trajectory, "namespace")] == [
        "model",
        "model",
        "tools",
        "tools",
        "model",
    ]
    assert forks(trajectory) == [None, None, "a new conversation", None, None]
    assert [turn.parent for turn in trajectory.turns] == [None, "t0", None, "t2", "t1"]
    assert len(trajectory.samples()) == 2


async def test_a_deep_agents_files_are_its_state():
    write = [("write_file", {"file_path": "/notes.txt", "content": "noon"})]
    read = [("read_file", {"file_path": "/notes.txt"})]
    trajectory = await run(deep(), [write, read, "Noon."], allow_destructive=["write_file"])
    assert "noon" in asked(trajectory)[2][-1][1]
    assert list(trajectory.output["files"]) == ["/notes.txt"]
    assert len(trajectory.samples()) == 1


async def test_only_the_helper_of_a_deep_agent_may_be_trained():
    call = {"name": "task", "args": {"description": "Time?", "subagent_type": "clock"}, "id": "c1"}
    lead = Lead(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("Noon.")]))
    helper = {"name": "clock", "description": "Tells the time.", "system_prompt": "You are a clock."}
    small = production_model(model="gpt-5-nano")
    graph = create_deep_agent(model=lead, subagents=[{**helper, "tools": [get_time], "model": small}])
    trajectory = await run(graph, [CALL, "It is noon."], train="gpt-5-nano")
    assert trajectory.error is None
    assert callers(trajectory, "model") == ["gpt-5-nano", "gpt-5-nano"]
    assert said(trajectory)[1] == "It is noon."
    assert trajectory.metrics["environment_model_calls"] == 2
