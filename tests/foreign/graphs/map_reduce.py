"""One call names parts, a call for each part runs beside the others, and a last one chooses among the results."""

import operator
from typing import Annotated, TypedDict

from langchain.chat_models import init_chat_model
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from pydantic import BaseModel


class Parts(BaseModel):
    parts: list[str]


class Choice(BaseModel):
    number: int


class Report(TypedDict, total=False):
    topic: str
    parts: list[str]
    slogans: Annotated[list[str], operator.add]
    best: str


class Part(TypedDict):
    part: str


model = init_chat_model("google_genai:gemini-3-flash")


def split(state: Report):
    return {
        "parts": model.with_structured_output(Parts, method="json_schema")
        .invoke(f"Name parts of: {state['topic']}")
        .parts
    }


def spread(state: Report):
    return [Send("slogan", {"part": part}) for part in state["parts"]]


def slogan(state: Part):
    return {"slogans": [model.invoke(f"A slogan for {state['part']}").content]}


def choose(state: Report):
    listed = "\n".join(f"{number}: {text}" for number, text in enumerate(state["slogans"]))
    return {
        "best": state["slogans"][
            model.with_structured_output(Choice, method="json_schema").invoke(f"Choose one:\n{listed}").number
        ]
    }


builder = StateGraph(Report)
builder.add_node(split)
builder.add_node(slogan)
builder.add_node(choose)
builder.add_edge(START, "split")
builder.add_conditional_edges("split", spread, ["slogan"])
builder.add_edge("slogan", "choose")
builder.add_edge("choose", END)
graph = builder.compile()
