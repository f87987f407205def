"""Retrieval that is asked for by the model, graded, and tried again with a better question where it brought nothing of use."""

from typing import Literal

from langchain.chat_models import init_chat_model
from langchain_core.documents import Document
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic import BaseModel, Field

LIBRARY = [
    Document("Tomatoes want six hours of sun a day.", metadata={"source": "vegetables"}),
    Document("Ferns grow in shade and want moist soil.", metadata={"source": "shade"}),
    Document("Roses are pruned in late winter.", metadata={"source": "roses"}),
]


def words(text: str) -> set[str]:
    return {word.strip(".,?!").lower() for word in text.split()}


@tool
def find_notes(query: str) -> str:
    """Search the notes of the garden club."""
    best = max(LIBRARY, key=lambda document: len(words(document.page_content) & words(query)))
    return best.page_content


class Grade(BaseModel):
    """Whether a note helps with a question."""

    relevant: Literal["yes", "no"] = Field(description="yes if the note helps to answer, else no")


model = init_chat_model("openai:gpt-5-mini", temperature=0)
grader = init_chat_model("openai:gpt-5-mini", temperature=0).with_structured_output(Grade)


def ask_or_answer(state: MessagesState):
    return {"messages": [model.bind_tools([find_notes]).invoke(state["messages"])]}


def grade(state: MessagesState) -> Literal["answer", "rewrite"]:
    question, note = state["messages"][0].content, state["messages"][-1].content
    verdict = grader.invoke(f"Question: {question}\nNote: {note}\nDoes the note help?")
    return "answer" if verdict.relevant == "yes" else "rewrite"


def rewrite(state: MessagesState):
    better = model.invoke(f"Say more precisely what this asks for: {state['messages'][0].content}")
    return {"messages": [("user", better.content)]}


def answer(state: MessagesState):
    question, note = state["messages"][0].content, state["messages"][-1].content
    return {"messages": [model.invoke(f"Answer in one sentence.\nQuestion: {question}\nNote: {note}")]}


builder = StateGraph(MessagesState)
builder.add_node(ask_or_answer)
builder.add_node("retrieve", ToolNode([find_notes]))
builder.add_node(rewrite)
builder.add_node(answer)
builder.add_edge(START, "ask_or_answer")
builder.add_conditional_edges("ask_or_answer", tools_condition, {"tools": "retrieve", END: END})
builder.add_conditional_edges("retrieve", grade)
builder.add_edge("rewrite", "ask_or_answer")
builder.add_edge("answer", END)
graph = builder.compile()
