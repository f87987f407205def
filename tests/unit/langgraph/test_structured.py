"""``with_structured_output`` of four providers' models: the policy's JSON comes out as the object the graph expects."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from tests.unit.rollout.reading import said

from .graphs import END, START, Chat, StateGraph
from .providers import MODELS
from .running import run


class City(BaseModel):
    """A city."""

    name: str
    people: int


JSON = '{"name": "Rome", "people": 2746984}'
CALL = [("City", {"name": "Rome", "people": 2746984})]
ROME = City(name="Rome", people=2746984)


def extractor(model, **options):
    """A node that puts the object itself into the state."""
    structured = model.with_structured_output(City, **options)

    class State(Chat):
        city: object

    def extract(state):
        return {"city": structured.invoke(state["messages"])}

    builder = StateGraph(State, input_schema=Chat)
    builder.add_node("extract", extract)
    builder.add_edge(START, "extract")
    builder.add_edge("extract", END)
    return builder.compile()


@pytest.mark.parametrize("provider", MODELS)
async def test_a_json_schema(provider):
    trajectory = await run(extractor(MODELS[provider](), method="json_schema"), [JSON])
    assert trajectory.error is None
    assert trajectory.output["city"] == ROME
    assert said(trajectory) == [JSON]


@pytest.mark.parametrize("provider", MODELS)
async def test_a_function_call(provider):
    trajectory = await run(extractor(MODELS[provider](), method="function_calling"), [CALL])
    assert trajectory.error is None
    assert trajectory.output["city"] == ROME
    assert [tool.name for tool in trajectory.turns[0].tools] == ["City"]


@pytest.mark.parametrize("provider", ["openai", "gemini", "ollama"])
async def test_any_json(provider):
    trajectory = await run(extractor(MODELS[provider](), method="json_mode"), [JSON])
    assert trajectory.error is None
    assert trajectory.output["city"] == ROME


@pytest.mark.parametrize("provider", MODELS)
async def test_the_raw_message_too(provider):
    trajectory = await run(extractor(MODELS[provider](), method="json_schema", include_raw=True), [JSON])
    assert trajectory.output["city"]["parsed"] == ROME
    assert trajectory.output["city"]["raw"].id == trajectory.turns[0].id


@pytest.mark.parametrize("provider", MODELS)
async def test_what_does_not_parse_is_the_agents_failure_and_the_turn_is_kept(provider):
    trajectory = await run(extractor(MODELS[provider](), method="json_schema"), ["Rome, I think"])
    assert trajectory.stop_reason == "error"
    assert trajectory.error.startswith("agent: ")
    assert said(trajectory) == ["Rome, I think"]
