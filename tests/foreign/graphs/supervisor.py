"""A supervisor hands work to two agents, one after the other, until it is done."""

from typing import Literal

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.messages import HumanMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command
from pydantic import BaseModel


class Route(BaseModel):
    """Who works next; finish if nobody has to."""

    worker: Literal["researcher", "calculator", "finish"]


def population(country: str) -> str:
    """Look up how many people live in a country."""
    return {"norway": "5.6 million", "iceland": "0.4 million"}.get(country.lower(), "unknown")


def add(a: float, b: float) -> float:
    """Add two numbers."""
    return round(a + b, 3)


model = init_chat_model("openai:gpt-5")
researcher = create_agent("openai:gpt-5-mini", [population], name="researcher")
calculator = create_agent("openai:gpt-5-mini", [add], name="calculator")


def supervisor(state: MessagesState) -> Command[Literal["researcher", "calculator", "__end__"]]:
    rules = ("system", "You lead a researcher and a calculator. Say who works next.")
    route = model.with_structured_output(Route, method="function_calling").invoke([rules, *state["messages"]])
    return Command(goto=END if route.worker == "finish" else route.worker)


def working(agent):
    def work(state: MessagesState) -> Command[Literal["supervisor"]]:
        last = agent.invoke(state)["messages"][-1]
        return Command(goto="supervisor", update={"messages": [HumanMessage(last.content, name=agent.name)]})

    return work


builder = StateGraph(MessagesState)
builder.add_node(supervisor)
builder.add_node("researcher", working(researcher))
builder.add_node("calculator", working(calculator))
builder.add_edge(START, "supervisor")
graph = builder.compile()
