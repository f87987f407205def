"""Two agents that hand a customer to each other; whoever has the customer answers."""

from typing import Annotated, Literal, NotRequired

from langchain.agents import AgentState, create_agent
from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import InjectedState
from langgraph.types import Command


class Desk(AgentState):
    active: NotRequired[str]


def handing_to(name: str):
    @tool(f"hand_to_{name}", description=f"Give the customer to the {name} desk.")
    def hand(state: Annotated[Desk, InjectedState], tool_call_id: Annotated[str, InjectedToolCallId]) -> Command:
        told = ToolMessage(f"The customer is with {name} now.", tool_call_id=tool_call_id)
        update = {"messages": [*state["messages"], told], "active": name}
        return Command(goto=name, update=update, graph=Command.PARENT)

    return hand


def flight_status(number: str) -> str:
    """Tell whether a flight is on time."""
    return f"{number} is two hours late."


def refund(booking: str) -> str:
    """Give the money for a booking back."""
    return f"{booking}: 120 euros are on their way."


flights = create_agent("openai:gpt-5-mini", [flight_status, handing_to("billing")], state_schema=Desk, name="flights")
billing = create_agent("openai:gpt-5-mini", [refund, handing_to("flights")], state_schema=Desk, name="billing")


def desk(state: Desk) -> Literal["flights", "billing"]:
    return state.get("active") or "flights"


builder = StateGraph(Desk)
builder.add_node("flights", flights)
builder.add_node("billing", billing)
builder.add_conditional_edges(START, desk)
builder.add_edge("flights", END)
builder.add_edge("billing", END)
graph = builder.compile()
