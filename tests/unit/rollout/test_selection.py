"""Which model calls are trained, and as which adapter."""

import pytest

import art_core as art
from art_core.inference.original import OriginalPolicy
from art_core.rollout.selection import Selection
from art_core.rollout.session import Session

CALL = {"model": "gpt-5", "node": "writer", "agent": "team"}


@pytest.mark.parametrize(
    ("train", "adapter"),
    [
        (None, "default"),
        ("writer", "default"),
        ({"planner", "gpt-5"}, "default"),
        ("planner", None),
        ({"writer": "texts", "planner": "plans"}, "texts"),
        ({"gpt-5": "all", "team": "ours"}, "ours"),
        ({"planner": "plans"}, None),
        (lambda call: call["model"] == "gpt-5", "default"),
        (lambda call: False, None),
    ],
)
def test_a_call_is_answered_by_the_adapter_that_train_gives_it(train, adapter):
    assert Selection(train).adapter_for(CALL) == adapter


def test_the_adapters_are_those_that_a_mapping_names_once_each():
    assert Selection({"a": "one", "b": "two", "c": "one"}).adapters == ("one", "two")
    assert Selection("a").adapters == ("default",)


@pytest.mark.parametrize("train", [[], 7, {}])
def test_train_must_select_something(train):
    with pytest.raises(art.InputError, match="train must name models, nodes or agents, or be a function"):
        Selection(train)


@pytest.mark.parametrize("name", ["../x", "", 3])
def test_an_adapter_name_is_a_plain_word(name):
    with pytest.raises(art.InputError, match="its name is to be made of letters, digits"):
        Selection({"planner": name})


def test_with_the_original_models_nothing_is_redirected():
    session = Session(OriginalPolicy(), art.Scenario("s", "hello"), rollout_id="r")
    assert session.adapter_for(CALL) is None


async def test_an_agent_without_a_model_of_its_own_cannot_be_run_with_the_original_one():
    async def agent(scenario, session):
        await session.chat([{"role": "user", "content": "hello"}])

    trajectory = await art.rollout(agent, art.Scenario("s", "hello"), OriginalPolicy())
    assert trajectory.error is not None
    assert "has none of its own" in trajectory.error
