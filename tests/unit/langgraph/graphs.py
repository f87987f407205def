"""Graphs as people write them, with the models that they call in production; here no call may get there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypedDict

from langchain.agents import create_agent
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime

NOWHERE = {"base_url": "http://127.0.0.1:9/v1", "api_key": "none", "max_retries": 0}
"""A service that refuses every connection: a call that is not captured fails."""


def production_model(**options) -> ChatOpenAI:
    return ChatOpenAI(**{"model": "gpt-5-mini"} | NOWHERE | options)


@tool
def get_time(city: str) -> str:
    """Tell the time in a city."""
    return f"It is noon in {city}."


@tool
def broken(city: str) -> str:
    """Fail."""
    raise RuntimeError(f"no such place: {city}")


class Chat(TypedDict):
    messages: Annotated[list, add_messages]


def builder_of(node, state=Chat, *, name="node", retry_policy=None, **schemas):
    """One node, not compiled yet."""
    builder = StateGraph(state, **schemas)
    builder.add_node(name, node, retry_policy=retry_policy)
    builder.add_edge(START, name)
    builder.add_edge(name, END)
    return builder


def graph_of(node, *, retry_policy=None, **options):
    """One node; ``options`` are of the compilation."""
    return builder_of(node, retry_policy=retry_policy).compile(**options)


def graph_of_model(model):
    """One node that asks the model, with the config it is given."""

    def node(state, config):
        return {"messages": [model.invoke(state["messages"], config)]}

    return graph_of(node)


def chatbot(model=None, *, is_async=False):
    """One node that answers the messages."""
    model = model or production_model()

    def answer(state: Chat):
        return {"messages": [model.invoke(state["messages"])]}

    async def answer_async(state: Chat):
        return {"messages": [await model.ainvoke(state["messages"])]}

    return builder_of(answer_async if is_async else answer, name="answer").compile()


def assistant(**options):
    """The usual agent with tools."""
    return create_agent(production_model(), [get_time, broken], **options)


@dataclass
class Manner:
    tone: str


def greeter():
    """A graph that reads its config and its context."""

    def answer(state: Chat, config: RunnableConfig, runtime: Runtime[Manner]):
        prompt = f"{config['configurable']['user']}, {runtime.context.tone}: {state['messages'][-1].content}"
        return {"messages": [production_model().invoke(prompt)]}

    return builder_of(answer, context_schema=Manner).compile()
