"""Who answers a model's call: the policy inside a rollout, the model itself elsewhere, nobody from a raw thread."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import FakeListChatModel

import art_core as art
from art_integrations import openai_sdk
from art_integrations.langgraph import install, installed, uninstall
from tests.threads import in_a_pool, in_a_thread
from tests.unit.rollout.reading import said

from .graphs import END, START, Chat, StateGraph, graph_of, production_model
from .running import run


def judge():
    return FakeListChatModel(responses=["fair"])


def test_outside_of_a_rollout_a_model_answers_itself():
    install()
    assert judge().invoke("How was it?").content == "fair"


def test_models_and_threads_are_put_back():
    uninstall()
    openai_sdk.uninstall()
    before = BaseChatModel.generate, BaseChatModel.astream, threading.Thread.start, ThreadPoolExecutor.submit
    install()
    assert installed()
    uninstall()
    assert (BaseChatModel.generate, BaseChatModel.astream, threading.Thread.start, ThreadPoolExecutor.submit) == before
    install()
    openai_sdk.install()


async def test_a_judge_inside_the_rollout_answers_itself():
    def node(state):
        answer = production_model().invoke(state["messages"])
        with art.no_capture():
            return {"messages": [answer, judge().invoke([answer])]}

    trajectory = await run(graph_of(node), ["Noon."])
    assert said(trajectory) == ["Noon."]
    assert trajectory.output["messages"][-1].content == "fair"


@pytest.mark.parametrize("start", [in_a_thread, in_a_pool])
async def test_a_raw_thread_of_a_rollout_reaches_nobody_and_is_told_how_to_do_it(start):
    caught = []

    def call():
        try:
            judge().invoke("hello")
        except art.InputError as error:
            caught.append(str(error))

    def node(state):
        start(call)
        return {"messages": [production_model().invoke(state["messages"])]}

    await run(graph_of(node), ["Noon."])
    (message,) = caught
    assert message.startswith("FakeListChatModel was called in a thread that rollout 's-")
    assert "contextvars.copy_context().run" in message


async def test_a_thread_under_no_capture_is_left_alone():
    heard = []

    def node(state):
        with art.no_capture():
            in_a_thread(lambda: heard.append(judge().invoke("hello").content))
        return {"messages": [production_model().invoke(state["messages"])]}

    await run(graph_of(node), ["Noon."])
    assert heard == ["fair"]


async def test_a_thread_that_is_no_rollouts_is_left_alone_while_one_runs():
    heard, begin, end = [], threading.Event(), threading.Event()

    def unrelated():
        begin.wait(10)
        heard.append(judge().invoke("hello").content)
        end.set()

    install()
    thread = threading.Thread(target=unrelated)
    thread.start()

    def node(state):
        begin.set()
        end.wait(10)
        return {"messages": [production_model().invoke(state["messages"])]}

    await run(graph_of(node), ["Noon."])
    thread.join()
    assert heard == ["fair"]


async def test_to_thread_and_gather_keep_the_rollout():
    model = production_model()

    async def node(state):
        one, two = await asyncio.gather(
            asyncio.to_thread(model.invoke, "one?"), model.ainvoke("two?"), return_exceptions=False
        )
        return {"messages": [one, two]}

    def answer(messages, tools):
        return f"to {messages[-1].text}"

    trajectory = await run(graph_of(node), answer)
    assert [m.content for m in trajectory.output["messages"][-2:]] == ["to one?", "to two?"]
    assert len(trajectory.turns) == 2


@pytest.mark.parametrize(
    "train", ["node", ["other", "node"], "gpt-5-mini", lambda about: about["provider"] == "ChatOpenAI"]
)
async def test_only_chosen_calls_are_trained_and_the_others_run_as_ever(train):
    def node(state):
        return {"messages": [production_model().invoke(state["messages"])]}

    def other(state):
        return {"messages": [judge().invoke(state["messages"])]}

    builder = StateGraph(Chat)
    builder.add_node("node", node)
    builder.add_node("critic", other)
    builder.add_edge(START, "node")
    builder.add_edge("node", "critic")
    builder.add_edge("critic", END)
    trajectory = await run(builder.compile(), ["Noon."], train=train)
    assert said(trajectory) == ["Noon."]
    assert trajectory.output["messages"][-1].content == "fair"
    assert trajectory.metrics["environment_model_calls"] == 1
