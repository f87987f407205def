"""Running a graph against a script, and what must hold of every trajectory that comes out."""

from __future__ import annotations

import art_core as art
from art_integrations.langgraph import LangGraphAgent


async def run(graph, replies, scenario="What time is it in Rome?", *, limits=None, **options):
    """The trajectory of one rollout; every token that was sampled is trained exactly once in it."""
    policy = art.ScriptedPolicy(replies)
    trajectory = await art.rollout(
        LangGraphAgent(graph, **options),
        art.Scenario("s", scenario),
        policy,
        limits=limits or art.Limits(seconds=20),
    )
    if trajectory.turns:
        trained = [token for sample in trajectory.samples() for token in sample.token_ids[sample.mask].tolist()]
        sampled = [token for turn in trajectory.turns for token in turn.completion_ids]
        assert sorted(trained) == sorted(sampled)
    return trajectory


def said(trajectory):
    """The replies, as the model wrote them."""
    renderer = art.ScriptedPolicy([]).renderer
    return [renderer.text(turn.completion_ids[:-1]) for turn in trajectory.turns]


def asked(trajectory):
    """Role and text of the messages of each request."""
    graph = trajectory.graph
    return [[(m.role, m.text) for m in graph.history(turn.id)[:-1]] for turn in trajectory.turns]
