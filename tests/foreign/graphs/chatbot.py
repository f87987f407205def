"""A chatbot that remembers its thread and sees only the end of a long one."""

from langchain.chat_models import init_chat_model
from langchain_core.messages import SystemMessage, trim_messages
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

model = init_chat_model("openai:gpt-5-mini")
PERSONA = SystemMessage("You are a patient guide of the city museum.")


def chatbot(state: MessagesState):
    recent = trim_messages(state["messages"], max_tokens=3, token_counter=len, start_on="human")
    return {"messages": [model.invoke([PERSONA, *recent])]}


builder = StateGraph(MessagesState)
builder.add_node("chatbot", chatbot)
builder.add_edge(START, "chatbot")
graph = builder.compile(checkpointer=InMemorySaver())
