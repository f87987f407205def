"""The worlds of ``benchmarks.without_data``: their programs write, do, judge and check the same questions."""

from __future__ import annotations

import pytest

from art_core.authoring.similar import Known
from art_core.messages import canonical_json
from art_core.scenario import Scenario
from art_core.trajectory.trajectory import ToolEvent, Trajectory
from benchmarks.worlds import WORLDS, check

SEVERAL = ["memory", "files"]


def attempt(question, *, calls=None, answer=None):
    """An attempt as a judge reads it."""
    lines = []
    for name, arguments in question.calls if calls is None else calls:
        lines += [f"[assistant]\n→ {name}({canonical_json(dict(arguments))})", "[tool]\nfound"]
    return "\n".join([*lines, f"[assistant]\n{question.answer if answer is None else answer}"])


def rollout(question, *, answer, error=None):
    events = [
        ToolEvent(turn=None, call_id=str(n), name=name, arguments=dict(arguments), result="found", error=error)
        for n, (name, arguments) in enumerate(question.calls)
    ]
    return Trajectory(rollout_id="r", scenario=Scenario("s", question.text), events=events, output=answer)


@pytest.mark.parametrize("name", [*SEVERAL, "notes"])
def test_no_question_is_like_another(name):
    known = Known()
    for question in WORLDS[name].questions:
        assert known.like(question.text) is None, question.text
        known.add(question.text)


@pytest.mark.parametrize("name", SEVERAL)
def test_a_judge_counts_the_calls_and_a_stated_fact(name):
    world = WORLDS[name]
    for question in world.questions:
        grade = world.roles().grades
        context = f"[system]\nx\n[user]\n{question.text}"
        half = 0.6 * (len(question.calls) - 1) / len(question.calls)
        assert grade(context, attempt(question)) == 1.0
        assert grade(context, attempt(question, answer="I do not know.")) == 0.6
        assert grade(context, attempt(question, calls=question.calls[:-1])) == pytest.approx(half, abs=0.001)


def test_what_all_attempts_did_alike_counts_for_each():
    world = WORLDS["memory"]
    question = next(one for one in world.questions if one.difficulty == 3)
    whole = attempt(question)
    shared, _, rest = whole.partition("\n[tool]")
    assert world.roles().grades(f"[user]\n{question.text}\n{shared}", f"[tool]{rest}") == 1.0


@pytest.mark.parametrize("name", SEVERAL)
def test_the_check_is_another_one_than_the_judge(name):
    question = WORLDS[name].questions[0]
    scenario = Scenario("s", question.text)
    right, guessed = (
        rollout(question, answer=question.answer),
        Trajectory(rollout_id="r", scenario=scenario, output=question.answer),
    )
    failed, silent = rollout(question, answer=question.answer, error="tool_error"), rollout(question, answer="Hm.")
    assert [check(one, scenario).success for one in (right, guessed, failed, silent)] == [True, False, False, False]


@pytest.mark.parametrize(
    ("request_", "attempt_", "grade"),
    [
        ("What time is it in Oslo?", '→ get_current_time({"timezone":"Europe/Oslo"})\n[tool]\n12:00', 1.0),
        ("What time is it in Oslo?", '→ get_current_time({"timezone":"Europe/Oslo"})\n[tool]\nError: no', 0.8),
        ("What time is it in Oslo?", '→ get_current_time({"timezone":"Europe/Rome"})', 0.2),
        ("What time is it in Oslo?", "It is noon.", 0.0),
        (
            "Convert 10:00 Rome time to Oslo time.",
            '→ convert_time({"source_timezone":"Europe/Rome","target_timezone":"Europe/Oslo","time":"10:00"})',
            1.0,
        ),
        (
            "Convert 10:00 Rome time to Oslo time.",
            '→ convert_time({"source_timezone":"Europe/Oslo","target_timezone":"Europe/Rome","time":"10:00"})',
            0.4,
        ),
        ("Convert 10:00 Rome time to Oslo time.", '→ get_current_time({"timezone":"Europe/Rome"})', 0.1),
    ],
)
def test_a_question_about_times_is_judged_by_its_call(request_, attempt_, grade):
    assert WORLDS["time"].roles().grades(f"[user]\n{request_}", f"[assistant]\n{attempt_}") == grade


@pytest.mark.parametrize(
    ("answer", "grade", "success"),
    [
        ("- {a}\n- {b}", 1.0, True),
        ("{a}.\n\n{b}", 1.0, True),
        ("- {b}\n- {a}", 1.0, False),
        ("- {a}", 0.5, False),
        ("- {a}\n- {b}\n- Nobody: rest\n- Nobody: sleep", 0.5, False),
        ("- Nobody: {a_task}\n- {b}", 0.75, False),
        ("", 0.0, False),
    ],
)
def test_a_list_of_action_items_is_judged_by_its_lines(answer, grade, success):
    world = WORLDS["notes"]
    question = next(one for one in world.questions if one.difficulty == 3)
    first, second = (line.removeprefix("- ") for line in question.answer.splitlines())
    said = answer.format(a=first, b=second, a_task=first.partition(": ")[2])
    assert world.roles().grades(f"[user]\n{question.text}", f"[assistant]\n{said}") == grade
    scenario = Scenario("s", question.text)
    assert check(Trajectory(rollout_id="r", scenario=scenario, output=said), scenario).success is success
