"""Judges of every kind are asked in one way, over real HTTP where they are services."""

from __future__ import annotations

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from art_core.errors import InputError, JudgeError
from art_core.judging.judges import find_judge
from tests.servers.chat_server import chat_server

ASKED = [{"role": "system", "content": "Judge."}, {"role": "user", "content": "A or B?"}]


async def ask(judge, **options):
    return await judge.ask(ASKED, **{"schema": {"type": "object"}, "max_tokens": 50, "seconds": 5.0} | options)


async def test_a_service_is_asked_for_the_schema_and_tells_its_tokens():
    with chat_server(lambda body: "A.") as server:
        judge = find_judge(f"judge@{server.url}")
        answer = await ask(judge)
        await judge.close()
    assert (answer.text, answer.finished, answer.input_tokens, answer.output_tokens) == ("A.", True, 11, 3)
    (body,) = server.requests
    assert (body["model"], body["messages"], body["max_tokens"]) == ("judge", ASKED, 50)
    assert body["response_format"]["json_schema"]["schema"] == {"type": "object"}


async def test_a_provider_is_found_by_its_name_and_its_key_in_the_environment(monkeypatch):
    with chat_server(lambda body: "A.") as server:
        monkeypatch.setenv("OPENAI_API_KEY", "k1")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        judge = find_judge("openai/gpt-5-mini")
        await ask(judge)
        await judge.close()
    assert server.keys == ["Bearer k1"]
    assert server.requests[0]["max_completion_tokens"] == 50


async def test_a_missing_key_is_told_at_once(monkeypatch):
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    with pytest.raises(InputError, match="set GROQ_API_KEY in the environment"):
        find_judge("groq/qwen3-32b")


async def test_a_service_that_fails_is_told_with_its_name():
    with chat_server(lambda body: 401) as server:
        judge = find_judge(f"judge@{server.url}")
        with pytest.raises(JudgeError, match=rf"judge@{server.url}: AuthenticationError"):
            await ask(judge)
        await judge.close()


async def test_functions_are_asked_sync_and_async():
    async def later(messages):
        return messages[1]["content"]

    assert (await ask(find_judge(later))).text == "A or B?"
    assert (await ask(find_judge(lambda messages: messages[0]["content"]))).text == "Judge."
    with pytest.raises(JudgeError, match="<lambda> returned 3, which is no text"):
        await ask(find_judge(lambda messages: 3))


async def test_a_chat_model_of_langchain_is_asked():
    usage = {"input_tokens": 7, "output_tokens": 1, "total_tokens": 8}
    said = AIMessage("A.", usage_metadata=usage, response_metadata={"finish_reason": "length"})
    answer = await ask(find_judge(GenericFakeChatModel(messages=iter([said]))))
    assert (answer.text, answer.finished, answer.input_tokens, answer.output_tokens) == ("A.", False, 7, 1)
