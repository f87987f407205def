"""What cannot work is told in one sentence, before the first rollout where it can be known; no rollout ends empty and silent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypedDict

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime
from pydantic import BaseModel

import art_core as art
from art_core.errors import InputError
from art_core.loop.preflight import check_scenarios, preflight
from art_integrations.langgraph import LangGraphAgent
from tests.unit.rollout.reading import said

from .graphs import builder_of, chatbot, production_model
from .running import run


def answer(state):
    return {"messages": [production_model().invoke("hello")]}


@dataclass
class User:
    user_id: str
    language: str = "en"


class UserModel(BaseModel):
    user_id: str


class UserDict(TypedDict):
    user_id: str


@pytest.mark.parametrize("schema", [User, UserModel, UserDict])
@pytest.mark.parametrize("context", [None, {}])
def test_a_context_that_the_graph_needs_and_nobody_gives_is_told_at_once(schema, context):
    with pytest.raises(
        InputError, match=rf"the graph's context {schema.__name__} needs user_id, which nobody gives; give "
    ):
        LangGraphAgent(builder_of(answer, context_schema=schema).compile(), context=context)


@pytest.mark.parametrize("context", [{"user_id": "ada"}, User("ada")])
async def test_a_context_that_is_given_reaches_the_graph(context):
    def node(state, runtime: Runtime[User]):
        return {"messages": [production_model().invoke(f"I am {runtime.context.user_id}.")]}

    trajectory = await run(builder_of(node, context_schema=User).compile(), ["Hello, Ada."], context=context)
    assert said(trajectory) == ["Hello, Ada."]


async def test_a_config_key_that_is_missing_is_named_by_the_failed_rollout():
    def node(state, config):
        return {"messages": [production_model().invoke(config["configurable"]["user_id"])]}

    trajectory = await run(builder_of(node).compile(), ["never"])
    assert trajectory.stop_reason == "error"
    assert trajectory.error == (
        "agent: the graph needs 'user_id' in configurable of its config, which nobody gives; give "
        "LangGraphAgent(config={'configurable': {'user_id': ...}}) or --configurable user_id=VALUE"
    )


async def test_so_it_is_where_the_configurable_has_a_name_of_its_own():
    def node(state, config):
        settings = config["configurable"]
        return {"messages": [production_model().invoke(settings["user_id"])]}

    assert "--configurable user_id=VALUE" in (await run(builder_of(node).compile(), ["never"])).error


async def test_so_it_is_where_a_factory_of_the_graph_looks_for_it():
    def make(config):
        return chatbot(config["configurable"]["model"])

    with pytest.raises(InputError, match="the graph needs 'model' in configurable of its config"):
        await LangGraphAgent(make).tools_found()
    assert "--configurable model=VALUE" in (await run(make, ["never"])).error


async def test_another_key_that_is_missing_is_the_graphs_own_failure():
    def node(state, config):
        return {"messages": [{}["colour"]]}

    assert (await run(builder_of(node).compile(), ["never"])).error == "agent: KeyError: 'colour'"


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (builder_of(answer), "StateGraph is not compiled; give what its compile() returns"),
        (production_model(), "is a ChatOpenAI, not a compiled LangGraph graph"),
        (
            lambda model, tools: chatbot(),
            "needs model, tools; a function that makes the graph is called with nothing or",
        ),
    ],
    ids=["not compiled", "a model", "a factory of too much"],
)
def test_what_is_no_graph_is_told_at_once(graph, message):
    with pytest.raises(InputError) as told:
        LangGraphAgent(graph)
    assert message in str(told.value)


async def test_a_factory_that_makes_no_graph_is_told_by_the_failed_rollout():
    trajectory = await run(lambda: builder_of(answer), ["never"])
    assert trajectory.error == "agent: StateGraph is not compiled; give what its compile() returns"


async def test_a_tool_that_only_the_provider_can_run_is_told_before_a_model_is_loaded():
    model = production_model().bind_tools([{"type": "web_search"}])
    agent = LangGraphAgent(builder_of(lambda state: {"messages": [model.invoke(state["messages"])]}).compile())
    with pytest.raises(
        InputError, match=r"the tool {'type': 'web_search'}, which only the provider can run; give it a tool"
    ):
        await preflight(agent, art.Scenario("s", "News?"), lambda t, s: 1.0, limits=art.Limits(seconds=20), warn=print)


@dataclass
class Order:
    number: int
    note: str = ""


class OrderModel(BaseModel):
    number: int


class Messages(TypedDict):
    messages: Annotated[list, add_messages]


@pytest.mark.parametrize(
    ("state", "given", "message"),
    [
        (
            OrderModel,
            {"number": "many"},
            "'bad' does not fit the graph's input OrderModel: number: Input should be a valid integer",
        ),
        (OrderModel, {}, "'bad' does not fit the graph's input OrderModel: number: Field required"),
        (
            Order,
            {"note": "today"},
            "'bad' does not fit the graph's input Order: number is missing; write the scenario's",
        ),
        (
            Order,
            {"numbers": 3},
            "'bad' has the field 'numbers', which the graph's input does not have; it has number, note",
        ),
        (Messages, {"messages": [{"role": "robot", "content": "hi"}]}, "'bad': messages holds no messages: "),
        (Messages, {"messages": [{"text": "hi"}]}, "'bad': messages holds no messages: "),
    ],
    ids=["type", "required", "dataclass", "unknown", "role", "no message"],
)
def test_a_scenario_that_does_not_fit_the_state_is_told_whichever_it_is(state, given, message):
    agent = LangGraphAgent(builder_of(lambda state: {}, state).compile())
    fine = {"messages": [("user", "hi")]} if state is Messages else {"number": 3}
    with pytest.raises(InputError) as told:
        check_scenarios(agent, [art.Scenario("fine", fine), art.Scenario("bad", given)])
    assert f"scenario {message}" in str(told.value)


def test_training_looks_at_every_scenario_before_it_loads_a_model():
    agent = LangGraphAgent(builder_of(answer, Messages).compile())
    scenarios = [*(art.Scenario(f"s{n}", f"hello {n}") for n in range(40)), art.Scenario("last", {"text": "hello"})]
    with pytest.raises(
        InputError, match=r"scenario 'last' has the field 'text', which the graph's input does not have"
    ):
        art.train(agent, scenarios, lambda t, s: 1.0, base_model="no-such-model")


async def test_a_graph_that_calls_no_model_ends_with_an_error():
    trajectory = await run(builder_of(lambda state: {"messages": [("ai", "a canned answer")]}).compile(), ["never"])
    assert trajectory.stop_reason == "error"
    assert trajectory.error == (
        "agent: the graph ended without calling a chat model, so there is nothing to train; calls through LangChain and the openai "
        "SDK are seen, those under art.no_capture() and of other clients are not"
    )


async def test_a_graph_whose_calls_are_all_left_out_says_what_called():
    def node(state):
        return {"messages": [FakeListChatModel(responses=["fair"]).invoke("hello")]}

    trajectory = await run(builder_of(node).compile(), ["never"], train=["planner"])
    assert trajectory.error == (
        "agent: none of the graph's model calls is trained: train=['planner'], and what called was "
        "model 'FakeListChatModel', node 'node'; name one of these with train="
    )
    assert len(trajectory.model_calls) == 1
