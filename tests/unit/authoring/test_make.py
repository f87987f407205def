"""Scenarios that are written, tried by a reference, and written anew where it could not do them."""

from __future__ import annotations

import json
import re

import pytest

from art_core.authoring.brief import Brief
from art_core.authoring.dry_run import DryRun
from art_core.authoring.make import make_scenarios
from art_core.errors import InputError
from art_core.inference.scripted import ScriptedPolicy
from art_core.judging.ruler import Ruler
from art_core.loop.collect import collected
from art_core.messages import Message, ToolCall, ToolSpec
from art_core.scenario import load_scenarios
from art_core.trajectory.trajectory import Reward, ToolEvent

BRIEF = Brief(about="Looks orders up.", tools=(ToolSpec(name="find"),))


class Author:
    """Writes as many as it is asked for, each about another order, or what it was given first."""

    def __init__(self, *first):
        self.first, self.count = list(first), 1000

    def __call__(self, messages):
        wanted = int(re.search(r"Write (\d+) requests", messages[-1]["content"])[1])
        texts = [self.first.pop(0) if self.first else self.next() for _ in range(wanted)]
        return json.dumps({"scenarios": [{"request": text, "difficulty": 1, "tools": ["find"]} for text in texts]})

    def next(self):
        self.count += 1
        return f"Where is order {self.count}?"


async def agent(scenario, session):
    """Looks the first number of the request up."""
    turn = await session.turn([Message(role="user", content=scenario.input)])
    for call in turn.reply.tool_calls:
        arguments = json.loads(call.arguments)
        session.record_tool(
            ToolEvent(turn=turn.id, call_id=call.id, name=call.name, arguments=arguments, result="here")
        )
    return turn.reply.text


def reply(messages, tools):
    number = re.search(r"\d+", messages[-1].text)
    if number is None:
        return Message(role="assistant", content="Which one?")
    return Message(role="assistant", tool_calls=(ToolCall(id="c", name="find", arguments=f'{{"id": {number[0]}}}'),))


def made_a_call(trajectory, scenario):
    return Reward(float(bool(trajectory.events)), success=bool(trajectory.events), reason="made no call")


def dry_run(tmp_path, **options):
    chosen = {"agent": agent, "policy": ScriptedPolicy(reply), "grader": made_a_call, **options}
    return DryRun(model="big", directory=tmp_path / "tried", record={"agent": {"kind": "test"}}, **chosen)


async def make(tmp_path, author, count, **options):
    return await make_scenarios(author, BRIEF, count, tmp_path / "s.jsonl", **options)


async def test_what_the_reference_cannot_do_is_replaced_and_kept_with_the_reason(tmp_path):
    made = await make(tmp_path, Author("Where is it?"), 3, dry_run=dry_run(tmp_path))
    assert [scenario.input for scenario in made.scenarios] == [
        "Where is order 1001?",
        "Where is order 1002?",
        "Where is order 1003?",
    ]
    assert made.shortfall is None
    (gone,) = load_scenarios(tmp_path / "s.refused.jsonl")
    assert (gone.input, gone.metadata["refused"]) == ("Where is it?", "big came to 0.00 only: made no call")
    assert load_scenarios(tmp_path / "s.jsonl") == made.scenarios


async def test_a_scenario_keeps_what_the_reference_did_and_its_content(tmp_path):
    made = await make(tmp_path, Author("Order 5, where?", "Look up 5 for me"), 2, dry_run=dry_run(tmp_path))
    first, second = made.scenarios
    assert first.metadata["dry_run"] == {
        "model": "big",
        "score": 1.0,
        "calls": [{"name": "find", "arguments": {"id": 5}}],
    }
    assert first.metadata["content"] == second.metadata["content"], "the same calls: the same meaning"
    assert [one.scenario.id for one in collected(tmp_path / "tried")] == [first.id, second.id]


async def test_making_them_again_writes_and_tries_nothing(tmp_path):
    first = await make(tmp_path, Author(), 4, dry_run=dry_run(tmp_path))

    def nobody(*given):
        raise AssertionError("asked")

    again = await make(tmp_path, nobody, 4, dry_run=dry_run(tmp_path, policy=ScriptedPolicy(nobody)))
    assert again.scenarios == first.scenarios


async def test_a_scenario_that_could_not_be_tried_is_neither_used_nor_refused(tmp_path):
    def fails(messages, tools):
        if "1002" in messages[-1].text:
            raise ConnectionError("the provider is away")
        return reply(messages, tools)

    broken = await make(tmp_path, Author(), 3, dry_run=dry_run(tmp_path, policy=ScriptedPolicy(fails)))
    assert [scenario.input[-5:-1] for scenario in broken.scenarios] == ["1001", "1003"]
    assert broken.shortfall == (
        "2 of 3 scenarios can be used: 1 could not be tried (the rollout failed: provider: ConnectionError: the provider is away); "
        "the same command tries them again"
    )
    mended = await make(tmp_path, Author(), 3, dry_run=dry_run(tmp_path))
    assert [scenario.input[-5:-1] for scenario in mended.scenarios] == ["1001", "1002", "1003"]


async def test_a_grade_that_is_missing_leaves_a_scenario_untried(tmp_path):
    def broken(messages):
        return "no idea"

    made = await make(tmp_path, Author(), 1, dry_run=dry_run(tmp_path, grader=Ruler(broken, attempts=1)))
    assert (made.scenarios, list(made.untried.values())) == (
        [],
        [
            "it has no grade: judge: broken gave no usable reply in 1 attempts: the reply holds no JSON that can be read: no idea"
        ],
    )
    assert made.grader.unscored == 1


@pytest.mark.parametrize(("score", "usable"), [(0.49, 0), (0.5, 2)])
async def test_a_judge_that_grades_decides_from_half_on(tmp_path, score, usable):
    def judge(messages):
        name = re.search(r'<trajectory id="(\w+)">', messages[-1]["content"])[1]
        return json.dumps({"scores": [{"trajectory_id": name, "explanation": "so so", "score": score}]})

    made = await make(tmp_path, Author(), 2, dry_run=dry_run(tmp_path, grader=Ruler(judge)))
    assert len(made.scenarios) == usable


async def test_a_reference_that_can_do_nothing_ends_in_a_shortfall_after_three_rounds(tmp_path):
    made = await make(
        tmp_path,
        Author(),
        2,
        dry_run=dry_run(tmp_path, policy=ScriptedPolicy(lambda *given: Message(role="assistant"))),
    )
    assert made.shortfall == (
        f"0 of 2 scenarios can be used: 6 were refused by the dry run and are in {tmp_path / 's.refused.jsonl'}"
    )


async def test_without_a_dry_run_all_are_used(tmp_path):
    made = await make(tmp_path, Author("Where is it?"), 2)
    assert len(made.scenarios) == 2
    assert made.dry_run is None


async def test_another_reference_needs_another_directory(tmp_path):
    await make(tmp_path, Author(), 1, dry_run=dry_run(tmp_path))
    other = dry_run(tmp_path)
    other.model = "bigger"
    with pytest.raises(InputError, match="was collected with model = 'big', not 'bigger'"):
        await make(tmp_path, Author(), 2, dry_run=other)
