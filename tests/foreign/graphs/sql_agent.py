"""Questions about a database: tables and schema are looked up by the graph, queries are written, checked and run."""

import sqlite3

from langchain.chat_models import init_chat_model
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

db = sqlite3.connect(":memory:", check_same_thread=False)
db.executescript("""
    CREATE TABLE ships (id INTEGER PRIMARY KEY, name TEXT, length_m REAL);
    INSERT INTO ships (name, length_m) VALUES ('Aurora', 82.5), ('Meridian', 120.0), ('Petrel', 31.0);
""")


@tool
def schema() -> str:
    """Show the tables and their columns."""
    return "\n".join(sql for (sql,) in db.execute("SELECT sql FROM sqlite_master WHERE type = 'table'"))


@tool
def run_query(query: str) -> str:
    """Run a query and show its rows, or what is wrong with it."""
    try:
        return str(db.execute(query).fetchall())
    except sqlite3.Error as error:
        return f"Error: {error}"


model = init_chat_model("openai:gpt-5-mini", temperature=0)
WRITE = "You answer questions about a SQLite database with one SELECT at a time. When you know the answer, say it."
CHECK = "You check SQLite queries for mistakes and run them, corrected where they need it."


def look(state: MessagesState):
    call = {"name": "schema", "args": {}, "id": "look", "type": "tool_call"}
    asking = AIMessage("", tool_calls=[call])
    return {"messages": [asking, schema.invoke(call)]}


def write_query(state: MessagesState):
    return {"messages": [model.bind_tools([run_query]).invoke([("system", WRITE), *state["messages"]])]}


def check_query(state: MessagesState):
    call = state["messages"][-1].tool_calls[0]
    strict = model.bind_tools([run_query], tool_choice="any")
    checked = strict.invoke([("system", CHECK), ("user", call["args"]["query"])])
    checked.id = state["messages"][-1].id
    return {"messages": [checked]}


def asks(state: MessagesState):
    return "check_query" if state["messages"][-1].tool_calls else END


builder = StateGraph(MessagesState)
builder.add_node(look)
builder.add_node(write_query)
builder.add_node(check_query)
builder.add_node("run_query", ToolNode([run_query]))
builder.add_edge(START, "look")
builder.add_edge("look", "write_query")
builder.add_conditional_edges("write_query", asks, ["check_query", END])
builder.add_edge("check_query", "run_query")
builder.add_edge("run_query", "write_query")
graph = builder.compile()
