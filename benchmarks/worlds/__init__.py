"""The worlds of ``benchmarks.without_data``, by name, and the check that their judges have no part in."""

from __future__ import annotations

from collections.abc import Mapping

from art_core.scenario import Scenario
from art_core.trajectory.trajectory import Reward, Trajectory

from .files import files
from .memory import memory
from .notes import items_of, notes
from .times import times
from .world import Question, World

__all__ = ["WORLDS", "Question", "World", "check"]

WORLDS: Mapping[str, World] = {"time": times(), "memory": memory(), "files": files(), "notes": notes()}


def check(trajectory: Trajectory, scenario: Scenario) -> Reward:
    """Success without a judge: the calls that the question takes were made and answered, and the last reply states the fact; where it
    takes none, the reply is the fact, line by line."""
    world = next(world for world in WORLDS.values() if any(one.text == scenario.input for one in world.questions))
    question, output = world.asked(str(scenario.input)), str(trajectory.output)
    good = [(event.name, event.arguments) for event in trajectory.events if event.error is None]
    made = all((name, dict(arguments)) in good for name, arguments in question.calls)
    if question.calls:
        stated = question.fact.casefold() in output.casefold()
    else:
        stated = items_of(output) == items_of(question.fact)
    return Reward(float(made and stated), success=made and stated, parts={"calls": float(made), "fact": float(stated)})
