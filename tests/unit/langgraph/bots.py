"""The text of a module with a graph whose model is at the URL in ``BOT_URL``, to be written where a verb can import it."""

GRAPH = """
import os
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph

model = ChatOpenAI(model="gpt-5-mini", base_url=os.environ["BOT_URL"], api_key="k", max_retries=0)
builder = StateGraph(MessagesState)
builder.add_node("answer", lambda state: {"messages": [model.invoke(state["messages"])]})
builder.add_edge(START, "answer")
builder.add_edge("answer", END)
graph = builder.compile()
"""
