"""A writer and a critic take turns on one text; the critic sees the roles exchanged."""

from langchain.chat_models import init_chat_model
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langgraph.graph import END, START, MessagesState, StateGraph

ROUNDS = 2

writer = ChatPromptTemplate.from_messages(
    [("system", "Write a short notice. Use the advice you are given."), MessagesPlaceholder("messages")]
) | init_chat_model("anthropic:claude-sonnet-5")
critic = ChatPromptTemplate.from_messages(
    [("system", "Say what would make the notice better."), MessagesPlaceholder("messages")]
) | init_chat_model("anthropic:claude-sonnet-5")


async def write(state: MessagesState):
    return {"messages": [await writer.ainvoke({"messages": state["messages"]})]}


async def criticise(state: MessagesState):
    first, *rest = state["messages"]
    turned = [HumanMessage(m.content) if isinstance(m, AIMessage) else AIMessage(m.content) for m in rest]
    advice = await critic.ainvoke({"messages": [first, *turned]})
    return {"messages": [HumanMessage(advice.content)]}


def enough(state: MessagesState):
    return END if len(state["messages"]) >= 2 * ROUNDS else "criticise"


builder = StateGraph(MessagesState)
builder.add_node(write)
builder.add_node(criticise)
builder.add_edge(START, "write")
builder.add_conditional_edges("write", enough, ["criticise", END])
builder.add_edge("criticise", "write")
graph = builder.compile()
