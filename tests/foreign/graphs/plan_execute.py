"""A planner writes steps, an agent with tools does one at a time, and a third call decides whether more is needed."""

import operator
from typing import Annotated, TypedDict

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel


class Plan(BaseModel):
    """The steps that are left, in order."""

    steps: list[str]


class Next(BaseModel):
    """The final answer, or the steps that are still needed."""

    answer: str | None = None
    steps: list[str] = []


class Job(TypedDict, total=False):
    task: str
    steps: list[str]
    done: Annotated[list[str], operator.add]
    answer: str


def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


def multiply(a: float, b: float) -> float:
    """Multiply two numbers."""
    return a * b


model = init_chat_model("openai:gpt-5")
worker = create_agent("openai:gpt-5-mini", [add, multiply], system_prompt="Do the one step you are given.")


async def plan(state: Job):
    made = await model.with_structured_output(Plan).ainvoke(f"Write a plan for: {state['task']}")
    return {"steps": made.steps}


async def execute(state: Job):
    step = state["steps"][0]
    result = await worker.ainvoke({"messages": [("user", step)]})
    return {"steps": state["steps"][1:], "done": [f"{step}: {result['messages'][-1].content}"]}


async def replan(state: Job):
    past = "\n".join(state["done"])
    said = await model.with_structured_output(Next).ainvoke(f"Task: {state['task']}\nDone:\n{past}\nWhat next?")
    return {"answer": said.answer} if said.answer else {"steps": said.steps}


builder = StateGraph(Job)
builder.add_node(plan)
builder.add_node(execute)
builder.add_node(replan)
builder.add_edge(START, "plan")
builder.add_edge("plan", "execute")
builder.add_conditional_edges("execute", lambda state: "execute" if state["steps"] else "replan", ["execute", "replan"])
builder.add_conditional_edges("replan", lambda state: END if state.get("answer") else "execute", ["execute", END])
graph = builder.compile()
