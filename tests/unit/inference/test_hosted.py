"""A provider's model behind real HTTP: what it is asked, what a turn keeps of its answer, and who is to blame when it fails."""

from __future__ import annotations

import pytest

import art_core as art
from art_core.inference.providers import PROVIDERS, find_hosted_model
from art_core.trajectory import store
from tests.servers.chat_server import call, chat_server

LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


async def ask(scenario, session):
    return (await session.chat([{"role": "user", "content": scenario.input}])).choices[0].message.content


async def use_a_tool(scenario, session):
    messages = [{"role": "user", "content": scenario.input}]
    first = (await session.chat(messages, tools=[LOOK], tool_choice="auto", temperature=0.5)).choices[0].message
    result = {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "seen"}
    second = await session.chat([*messages, first.model_dump(), result], tools=[LOOK])
    return second.choices[0].message.content


async def rollout(agent, server, **options):
    policy = art.HostedPolicy(f"some/model@{server.url}", retries=0)
    try:
        return await art.rollout(agent, art.Scenario("s", "Time?"), policy, **options)
    finally:
        await policy.close()


async def test_an_answer_is_a_turn_without_ids_that_knows_its_tokens():
    with chat_server(lambda body: "Noon.") as server:
        trajectory = await rollout(ask, server)
    (turn,) = trajectory.turns
    assert (trajectory.output, turn.reply.text, turn.completion_ids, turn.logprobs) == ("Noon.", "Noon.", (), None)
    assert turn.metadata["usage"] == {"input_tokens": 11, "output_tokens": 3}
    assert server.requests[0]["model"] == "some/model"
    assert server.requests[0]["messages"] == [{"role": "user", "content": "Time?"}]


async def test_its_samples_are_refused_by_the_name_of_the_turn():
    with chat_server(lambda body: "Noon.") as server:
        trajectory = await rollout(ask, server)
    with pytest.raises(art.NotTrainable, match="turn 't0' has a hosted model gives no token ids"):
        trajectory.samples()


async def test_a_conversation_with_tools_is_one_history_and_survives_storage(tmp_path):
    def answer(body):
        return "Noon." if len(body["messages"]) == 3 else call("look")

    with chat_server(answer) as server:
        trajectory = await rollout(use_a_tool, server)
    assert [message.role for message in trajectory.messages] == ["user", "assistant", "tool", "assistant"]
    assert [turn.parent for turn in trajectory.turns] == [None, "t0"]
    assert (server.requests[0]["tools"], server.requests[0]["temperature"]) == (
        [{**LOOK, "function": {**LOOK["function"], "description": ""}}],
        0.5,
    )
    store.append(tmp_path / "t.jsonl", trajectory)
    (again,) = store.read(tmp_path / "t.jsonl")
    assert again.messages == trajectory.messages


async def test_what_it_said_counts_against_the_tokens_of_the_rollout():
    async def twice(scenario, session):
        return await ask(scenario, session), await ask(scenario, session)

    with chat_server(lambda body: "Noon.") as server:
        trajectory = await rollout(twice, server, limits=art.Limits(tokens=3))
    assert (trajectory.stop_reason, server.requests[0]["max_tokens"]) == ("max_tokens", 3)


async def test_arguments_that_are_no_json_are_kept_as_malformed():
    wrong = {"tool_calls": [{"id": "c", "type": "function", "function": {"name": "look", "arguments": "{"}}]}
    with chat_server(lambda body: wrong) as server:
        trajectory = await rollout(ask, server)
    assert trajectory.turns[0].reply.malformed_calls[0].raw == "look({)"


async def test_a_failure_is_the_providers():
    with chat_server(lambda body: 401) as server:
        trajectory = await rollout(ask, server)
    assert trajectory.error.startswith("provider: some/model@http")
    assert "scripted failure" in trajectory.error
    assert trajectory.metrics["provider_errors"] == 1


async def test_a_passing_failure_is_tried_again():
    statuses = iter([500, "Noon."])
    with chat_server(lambda body: next(statuses)) as server:
        policy = art.HostedPolicy(f"m@{server.url}", retries=1)
        trajectory = await art.rollout(ask, art.Scenario("s", "Time?"), policy)
        await policy.close()
    assert (trajectory.output, len(server.requests)) == ("Noon.", 2)


@pytest.mark.parametrize("provider", [name for name, one in PROVIDERS.items() if one.needs_key])
def test_a_missing_key_is_one_sentence_that_names_the_variable(provider, monkeypatch):
    variable = f"{provider.upper()}_API_KEY"
    monkeypatch.delenv(variable, raising=False)
    with pytest.raises(art.InputError, match=f"^model '{provider}/m' needs a key: set {variable} in the environment$"):
        art.HostedPolicy(f"{provider}/m")


async def test_the_environment_says_where_a_provider_is_and_with_which_key(monkeypatch):
    with chat_server(lambda body: "Noon.") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "secret")
        policy = art.HostedPolicy("openai/gpt-5-mini")
        await art.rollout(ask, art.Scenario("s", "Time?"), policy)
        await policy.close()
    assert server.keys == ["Bearer secret"]
    assert "max_completion_tokens" in server.requests[0]


@pytest.mark.parametrize("name", ["gpt-5", "nobody/model", "openai/", "m@ftp://x"])
def test_a_name_of_another_form_is_told(name):
    with pytest.raises(
        art.InputError, match=r"is not of the form provider/model, with a provider of openai, anthropic"
    ):
        find_hosted_model(name)


def test_a_local_service_needs_no_key(monkeypatch):
    monkeypatch.delenv("OLLAMA_API_KEY", raising=False)
    assert find_hosted_model("ollama/qwen3:4b").model == "qwen3:4b"
