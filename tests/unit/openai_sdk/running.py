"""Running a program against a script."""

from __future__ import annotations

import art_core as art
from art_integrations.openai_sdk import PythonAgent


async def run(program, replies, scenario="What time is it?", *, limits=None, policy=None, **options):
    return await art.rollout(
        PythonAgent(program, **options),
        art.Scenario("s", scenario),
        policy or art.ScriptedPolicy(replies),
        limits=limits or art.Limits(seconds=20),
    )


def said(trajectory):
    """The replies, as the model wrote them."""
    renderer = art.ScriptedPolicy([]).renderer
    return [renderer.text(turn.completion_ids[:-1]) for turn in trajectory.turns]
