"""Groups of rollouts for judges to read, and judges that answer by a rule."""

from __future__ import annotations

import asyncio
import json
import re

import art_core as art

SCENARIO = art.Scenario("s", "What time is it in Rome?")


def group(*replies, scenario=SCENARIO, evaluating=False):
    """Siblings that said these things: each a text, or a list of replies of which all but the last are tool calls."""

    async def agent(scenario, session):
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": scenario.input}]
        while True:
            reply = (await session.chat(messages, tools=TOOLS)).choices[0].message
            if not reply.tool_calls:
                return reply.content
            messages.append(reply.model_dump(exclude_none=True))
            messages += [{"role": "tool", "tool_call_id": c.id, "content": "12:00"} for c in reply.tool_calls]

    async def run():
        scripts = [[reply] if isinstance(reply, str) else reply for reply in replies]
        return [
            await art.rollout(agent, scenario, art.ScriptedPolicy(script), rollout_id=f"r{number}")
            for number, script in enumerate(scripts)
        ]

    metadata = {"evaluating": True} if evaluating else {}
    trajectories = _in_a_loop_of_its_own(run())
    return art.TrajectoryGroup(scenario=scenario, trajectories=trajectories, group_id="g", metadata=metadata)


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_time",
            "description": "The time in a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]


def attempts_in(messages):
    """Name → text of the attempts that a judge is shown, in their order."""
    return dict(re.findall(r'<trajectory id="(\w+)">\n(.*?)\n</trajectory>', messages[1]["content"], re.DOTALL))


def verdict(scores):
    """A judge's reply."""
    entries = [
        {"trajectory_id": name, "explanation": f"about {name}", "score": score} for name, score in scores.items()
    ]
    return json.dumps({"scores": entries})


def by_words(words):
    """A judge that gives every attempt the score of the first of ``words`` that it contains, else 0."""

    def judge(messages):
        return verdict(
            {
                name: next((score for word, score in words.items() if word in text), 0.0)
                for name, text in attempts_in(messages).items()
            }
        )

    return judge


def _in_a_loop_of_its_own(work):
    """Run ``work``, from a test that has a loop as well as from one without."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    import threading

    found = []
    thread = threading.Thread(target=lambda: found.append(asyncio.run(work)))
    thread.start()
    thread.join()
    return found[0]
