"""The flows that cost money, against the real service: ``pytest -m live``, with a provider's key in the environment.

``ART_LIVE_MODEL`` names the model (``provider/model`` or ``model@URL``); unless it is set, the first provider whose key is there is asked.
"""

from __future__ import annotations

import json
import os

import pytest

import art_core as art
from art_core.judging.agreement import calibrate, read_gold
from art_core.rollout.group import gather

pytestmark = pytest.mark.live

MODELS = {
    "OPENAI_API_KEY": "openai/gpt-5-mini",
    "ANTHROPIC_API_KEY": "anthropic/claude-haiku-4-5",
    "GEMINI_API_KEY": "gemini/gemini-2.5-flash",
    "GROQ_API_KEY": "groq/openai/gpt-oss-20b",
    "OPENROUTER_API_KEY": "openrouter/openai/gpt-5-mini",
}
SCENARIO = art.Scenario("paris", "What is the capital of France?")
REPLIES = ["Paris is the capital of France.", "I think it is Lyon.", "No idea."]


@pytest.fixture
def model():
    named = os.environ.get("ART_LIVE_MODEL") or next((m for key, m in MODELS.items() if os.environ.get(key)), None)
    if named is None:
        pytest.skip(f"no key: set one of {', '.join(MODELS)}, or ART_LIVE_MODEL")
    return named


async def agent(scenario, session):
    return (await session.chat([{"role": "user", "content": scenario.input}])).choices[0].message.content


async def group(reward):
    left = list(REPLIES)
    policy = art.ScriptedPolicy(lambda messages, tools: left.pop(0))
    (found,) = await gather(agent, [SCENARIO], policy, reward=reward, group_size=3, concurrency=1)
    return found


async def test_the_right_answer_is_the_best_and_the_first_reply_can_be_used(model):
    ruler = art.Ruler(model, attempts=1)
    try:
        right, wrong, none = (await group(ruler)).rewards
    finally:
        await ruler.close()
    assert right > max(wrong, none)
    assert (ruler.account.calls, ruler.account.refused, ruler.account.estimated_calls) == (1, 0, 0)


async def test_a_known_ranking_is_agreed_with(model, tmp_path):
    attempts = [{"text": text, "score": score} for text, score in zip(REPLIES, (1.0, 0.0, 0.1), strict=True)]
    path = tmp_path / "gold.jsonl"
    path.write_text(json.dumps({"input": SCENARIO.input, "attempts": attempts}) + "\n")
    ruler = art.Ruler(model, votes=2)
    try:
        found = await calibrate(ruler, read_gold(path))
    finally:
        await ruler.close()
    assert found.agreement.share >= 0.5
    assert found.unscored == 0


async def test_scenarios_are_written_and_tried(model, tmp_path):
    dry_run = art.DryRun(
        agent=art.TaskAgent("Answer in one sentence."),
        policy=art.HostedPolicy(model),
        model=model,
        grader=art.Ruler(model, success_at=0.5),
        directory=tmp_path / "tried",
        record={},
    )
    brief = art.Brief(about="Answers questions about geography.")
    try:
        made = await art.make_scenarios(model, brief, 3, tmp_path / "s.jsonl", dry_run=dry_run)
    finally:
        await dry_run.close()
    assert (len(made.scenarios), made.untried) == (3, {})
