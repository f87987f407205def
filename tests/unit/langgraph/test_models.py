"""Models that are chosen at run time, and every class of model that graphs are built with."""

from __future__ import annotations

import pytest
from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_anthropic import ChatAnthropic
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_ollama import ChatOllama
from langchain_openai import AzureChatOpenAI, ChatOpenAI

import art_core as art
from art_integrations.langgraph import LangGraphAgent
from tests.unit.rollout.reading import said

from .graphs import NOWHERE, get_time, graph_of, graph_of_model
from .providers import MODELS
from .running import asked, callers, check_tokens, forks, run

CALL = [("get_time", {"city": "Rome"})]


async def test_a_model_made_by_its_name_keeps_what_it_was_made_with():
    model = init_chat_model("openai:gpt-5-mini", temperature=0.2, max_tokens=3, **NOWHERE)
    trajectory = await run(graph_of_model(model), ["one two"])
    assert trajectory.turns[0].finish_reason == "length"
    assert len(trajectory.turns[0].completion_ids) == 3
    assert callers(trajectory, "model") == ["gpt-5-mini"]


async def test_a_model_that_the_config_names_is_captured_as_that():
    model = init_chat_model(model_provider="openai", **NOWHERE)
    config = {"configurable": {"model": "gpt-5-nano"}}
    trajectory = await run(graph_of_model(model), ["Noon."], config=config)
    assert said(trajectory) == ["Noon."]
    assert callers(trajectory, "model") == ["gpt-5-nano"]


async def test_a_model_whose_every_field_is_configurable_keeps_those_of_the_config():
    model = init_chat_model("openai:gpt-5-mini", configurable_fields="any", config_prefix="answer", **NOWHERE)
    config = {"configurable": {"answer_model": "claude-sonnet-5", "answer_model_provider": "anthropic"}}
    config["configurable"] |= {"answer_max_tokens": 3, "answer_api_key": "none"}
    trajectory = await run(graph_of_model(model), ["one two"], config=config)
    assert callers(trajectory, "provider") == ["ChatAnthropic"]
    assert len(trajectory.turns[0].completion_ids) == 3


async def test_a_configurable_model_with_tools_is_an_agents_model():
    model = init_chat_model(configurable_fields=["model"], model="gpt-5-mini", model_provider="openai", **NOWHERE)
    config = {"configurable": {"model": "gpt-5-nano"}}
    trajectory = await run(graph_of_model(model.bind_tools([get_time], tool_choice="any")), [CALL], config=config)
    assert trajectory.turns[0].metadata["overridden"] == {"tool_choice": "required"}
    assert callers(trajectory, "model") == ["gpt-5-nano"]


async def test_a_config_that_the_graph_needs_and_lacks_is_the_agents_failure():
    def node(state, config):
        return {"messages": [MODELS["openai"]().invoke(config["configurable"]["question"])]}

    graph = graph_of(node)
    assert (await run(graph, ["never"])).error == (
        "agent: the graph needs 'question' in configurable of its config, which nobody gives; give "
        "LangGraphAgent(config={'configurable': {'question': ...}}) or --configurable question=VALUE"
    )
    assert asked(await run(graph, ["Noon."], config={"configurable": {"question": "Time?"}})) == [[("user", "Time?")]]


@pytest.mark.parametrize("provider", MODELS)
async def test_an_agent_of_any_providers_model_is_one_row(provider):
    trajectory = await run(create_agent(MODELS[provider](), [get_time], system_prompt="Be brief."), [CALL, "Noon."])
    assert trajectory.error is None
    assert asked(trajectory)[0] == [("system", "Be brief."), ("user", "What time is it in Rome?")]
    assert asked(trajectory)[1][-1] == ("tool", "It is noon in Rome.")
    assert forks(trajectory) == [None, None]
    assert len(trajectory.samples()) == 1


@pytest.mark.parametrize("name", ["gpt-6", "gpt-5-pro", "gpt-5-codex"])
async def test_models_that_speak_another_api_in_production_are_captured_too(name):
    agent = create_agent(init_chat_model(f"openai:{name}", **NOWHERE), [get_time])
    trajectory = await run(agent, [CALL, "Noon."])
    assert trajectory.error is None
    assert callers(trajectory, "model") == [name, name]
    assert len(trajectory.samples()) == 1


async def test_azures_model_is_captured():
    model = AzureChatOpenAI(
        azure_endpoint="http://127.0.0.1:9", azure_deployment="mine", api_version="2026-01-01", api_key="none"
    )
    assert said(await run(graph_of_model(model), ["Noon."])) == ["Noon."]


async def sampled(model, **options):
    """How a graph's model was sampled, and what it asked for in vain."""
    trajectory = await run(graph_of_model(model), ["Noon."], **options)
    assert trajectory.error is None
    return trajectory.turns[0].temperature, dict(trajectory.turns[0].metadata.get("overridden", {}))


WISHES = {
    "openai": (ChatOpenAI(model="gpt-4.1", temperature=0.2, top_p=0.5, seed=3, **NOWHERE), {"top_p": 0.5, "seed": 3}),
    "by name": (
        init_chat_model("openai:gpt-4.1", temperature=0.2, frequency_penalty=1.0, **NOWHERE),
        {"frequency_penalty": 1.0},
    ),
    "anthropic": (ChatAnthropic(model="claude-sonnet-5", api_key="none", temperature=0.2, top_k=4), {"top_k": 4}),
    "gemini": (
        ChatGoogleGenerativeAI(model="gemini-2.5-pro", google_api_key="none", temperature=0.2, top_k=4),
        {"top_k": 4},
    ),
    "ollama": (ChatOllama(model="qwen3", temperature=0.2, seed=3, validate_model_on_init=False), {"seed": 3}),
}


@pytest.mark.parametrize(("model", "wish"), WISHES.values(), ids=WISHES)
async def test_what_a_model_was_made_with_is_recorded_as_overridden(model, wish):
    assert await sampled(model) == (1.0, {"temperature": 0.2, **wish})


async def test_what_a_call_says_counts_before_what_the_model_was_made_with():
    model = ChatOpenAI(model="gpt-4.1", temperature=0.2, **NOWHERE).bind(temperature=0.7)
    assert await sampled(model) == (1.0, {"temperature": 0.7})


async def test_the_temperature_of_the_model_holds_while_the_policy_is_evaluated():
    agent = LangGraphAgent(graph_of_model(ChatOpenAI(model="gpt-4.1", temperature=0.2, **NOWHERE)))
    policy, scenario = art.ScriptedPolicy(["Noon."]), art.Scenario("s", "Time?")
    trajectory = await art.rollout(agent, scenario, policy, evaluating=True)
    check_tokens(trajectory)
    assert trajectory.turns[0].temperature == 0.2


async def test_json_that_a_model_was_made_for_is_asked_for():
    model = ChatOllama(model="qwen3", format="json", validate_model_on_init=False)
    assert (await sampled(model))[1] == {"response_format": {"type": "json_object"}}


async def test_an_argument_that_nobody_knows_is_told():
    with pytest.warns(UserWarning, match="frobnicate is not default parameter"):
        model = ChatOpenAI(model="gpt-4.1", frobnicate=3, **NOWHERE)
    trajectory = await run(graph_of_model(model), ["never"])
    assert trajectory.error.startswith(
        "agent: the graph calls its model with frobnicate = 3, which the trained model does"
    )
