"""The real time server over stdio, whole rollouts with a scripted policy."""

import art_core as art
from art_core.inference.scripted import ScriptedPolicy
from art_core.rollout.group import gather
from art_core.rollout.runner import rollout
from art_integrations.mcp import McpAgent

NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
SCENARIO = art.Scenario("tokyo", "It is noon in UTC. What time is it in Tokyo?", expected="21:00")


def call(name, arguments):
    return [(name, arguments)]


async def reward(trajectory, scenario):
    """Ask the still-open session itself."""
    result = await trajectory.environment.call_tool("convert_time", NOON)
    assert not result.error
    return float(f"T{scenario.expected}" in trajectory.events[-1].result)


async def test_a_rollout_calls_the_tool_and_the_reward_sees_the_open_session():
    agent = McpAgent("python -m mcp_server_time --local-timezone UTC")
    policy = ScriptedPolicy([call("convert_time", NOON), "It is 21:00."])
    trajectory = await rollout(agent, SCENARIO, policy, reward=reward)
    assert (trajectory.error, trajectory.stop_reason, trajectory.output) == (None, "finished", "It is 21:00.")
    assert trajectory.reward == 1.0
    assert [event.error for event in trajectory.events] == [None]
    assert len(trajectory.turns) == 2


async def test_the_model_can_correct_itself():
    agent = McpAgent("python -m mcp_server_time --local-timezone UTC")
    wrong = {**NOON, "target_timezone": "Asia/Tokio"}
    policy = ScriptedPolicy([call("convert_time", wrong), call("convert_time", NOON), "21:00"])
    trajectory = await rollout(agent, SCENARIO, policy, reward=reward)
    assert [event.error for event in trajectory.events] == ["tool_error", None]
    assert trajectory.reward == 1.0


async def test_siblings_share_a_stateless_server():
    agent = McpAgent("python -m mcp_server_time --local-timezone UTC", isolation="shared", tools=["convert_time"])

    def reply(messages, tools):
        return "21:00" if messages[-1].role == "tool" else call("convert_time", NOON)

    groups = await gather(agent, [SCENARIO], ScriptedPolicy(reply), reward=reward, group_size=4)
    await agent.close()
    assert groups[0].rewards == [1.0] * 4
