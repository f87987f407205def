"""The reason-and-act loop written out by hand, with a search tool."""

from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

PAGES = {
    "tallest tree": "The tallest known tree is a coast redwood of 116 metres.",
    "deepest lake": "The deepest lake is Baikal with 1642 metres.",
}


@tool
def search(query: str) -> str:
    """Look something up on the web."""
    return next((text for key, text in PAGES.items() if key in query.lower()), "Nothing was found.")


model = ChatAnthropic(model="claude-sonnet-5", max_retries=0).bind_tools([search])


async def agent(state: MessagesState):
    return {"messages": [await model.ainvoke(state["messages"])]}


builder = StateGraph(MessagesState)
builder.add_node("agent", agent)
builder.add_node("tools", ToolNode([search]))
builder.add_edge(START, "agent")
builder.add_conditional_edges("agent", tools_condition)
builder.add_edge("tools", "agent")
graph = builder.compile()
