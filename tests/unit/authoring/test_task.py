"""A task in words: its system text, and the agent that is nothing else."""

from __future__ import annotations

import pytest

from art_core.authoring.task import TaskAgent, write_system
from art_core.errors import JudgeError
from art_core.inference.scripted import ScriptedPolicy
from art_core.judging.asking import Asker, Bounds
from art_core.judging.judges import find_judge
from art_core.messages import Message
from art_core.rollout.runner import rollout
from art_core.scenario import Scenario


async def run(agent, input):
    heard = []

    def reply(messages, tools):
        heard.append([(message.role, message.text) for message in messages])
        return Message(role="assistant", content=f"answer {len(heard)}")

    return await rollout(agent, Scenario("s", input), ScriptedPolicy(reply)), heard


async def test_a_text_is_answered_once():
    trajectory, heard = await run(TaskAgent("Be brief."), "Hello")
    assert heard == [[("system", "Be brief."), ("user", "Hello")]]
    assert trajectory.output == "answer 1"


async def test_messages_are_answered_one_after_the_other():
    trajectory, heard = await run(
        TaskAgent(), [{"role": "user", "content": "First"}, {"role": "user", "content": "Second"}]
    )
    assert heard == [[("user", "First")], [("user", "First"), ("assistant", "answer 1"), ("user", "Second")]]
    assert (trajectory.output, len(trajectory.turns)) == ("answer 2", 2)


@pytest.mark.parametrize("input", [7, [], [{"role": "assistant", "content": "Hi"}]])
async def test_another_input_is_told(input):
    trajectory, _ = await run(TaskAgent(), input)
    assert "input must be a text, or a list of user messages" in trajectory.error


def asker(*replies, attempts=3):
    said = iter(replies)
    return Asker(find_judge(lambda messages: next(said)), Bounds(attempts=attempts))


async def test_the_system_text_is_what_the_author_says_it_is():
    assert await write_system(asker('```json\n{"system": " Answer in rhyme. "}\n```'), "Rhyme") == "Answer in rhyme."


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ('{"system": ""}', "there is no text in system"),
        ('{"text": "x"}', "there is no text in system"),
        (f'{{"system": "{"x" * 4001}"}}', "system has 4001 characters, more than 4000; be brief"),
    ],
)
async def test_a_system_text_that_cannot_be_used_is_asked_for_again(reply, problem):
    again = asker(reply, '{"system": "Better."}')
    assert await write_system(again, "Rhyme") == "Better."
    with pytest.raises(JudgeError, match=problem):
        await write_system(asker(reply, attempts=1), "Rhyme")
