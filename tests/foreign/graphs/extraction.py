"""Data out of a text; what does not validate goes back to the model with the reason, three times at most."""

from typing import TypedDict

from langchain_core.messages import AnyMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel, Field

TRIES = 3


class Invoice(BaseModel):
    """An invoice."""

    number: str = Field(pattern=r"^INV-\d+$")
    total: float = Field(gt=0)


class Letter(TypedDict):
    text: str


class Work(Letter, total=False):
    messages: list[AnyMessage]
    tries: int
    invoice: Invoice | None


extractor = ChatOpenAI(model="gpt-5-mini").with_structured_output(Invoice, method="function_calling", include_raw=True)


def read(state: Work):
    messages = state.get("messages") or [("system", "Take the invoice out of the letter."), ("user", state["text"])]
    result = extractor.invoke(messages)
    if error := result["parsing_error"]:
        reason = "; ".join(line.strip() for line in str(error).splitlines()[1:3])
        messages = [*messages, result["raw"], ("user", f"That is not valid: {reason}. Try again.")]
    return {"messages": messages, "tries": state.get("tries", 0) + 1, "invoice": result["parsed"]}


def fine(state: Work):
    return END if state["invoice"] or state["tries"] >= TRIES else "read"


builder = StateGraph(Work, input_schema=Letter)
builder.add_node(read)
builder.add_edge(START, "read")
builder.add_conditional_edges("read", fine, ["read", END])
graph = builder.compile()
