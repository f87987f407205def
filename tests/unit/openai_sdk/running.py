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
