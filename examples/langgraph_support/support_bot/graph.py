"""The agent: three tools over the database, and a returns specialist that it can ask."""

import os

from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware
from langchain.chat_models import init_chat_model
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

from . import db

model = init_chat_model("openai:gpt-5-mini", api_key=os.environ.get("OPENAI_API_KEY", "not set"))

at_most_three_calls = ModelCallLimitMiddleware(run_limit=3)


@tool
def find_order(number: int) -> str:
    """Status and arrival of an order."""
    found = db.order(number)
    if found is None:
        return f"no order {number}"
    return f"status {found['status']}, arrives {found['arrives']}"


@tool
def find_product(name: str) -> str:
    """Price and stock of a product."""
    found = db.product(name)
    if found is None:
        return f"no product {name!r}"
    return f"price {found['price']:.2f} EUR, stock {found['stock']}"


@tool
def find_ticket(customer: str) -> str:
    """Open ticket of a customer."""
    found = db.ticket(customer)
    if found is None:
        return f"no open ticket of {customer!r}"
    return f"ticket {found['number']}, about {found['topic']}, handled by {found['agent']}"


@tool
def return_terms(product: str) -> str:
    """Days and fee for sending a product back."""
    found = db.product(product)
    if found is None:
        return f"no product {product!r}"
    return f"return within {found['return_days']} days, fee {found['return_fee']:.2f} EUR"


returns_specialist = create_agent(
    model,
    [return_terms],
    system_prompt="You know the return terms of an outdoor shop. Look them up, then answer in one sentence.",
    middleware=[at_most_three_calls],
    name="returns_specialist",
)


@tool
def ask_returns(question: str) -> str:
    """Ask the returns specialist about sending a product back."""
    state = returns_specialist.invoke({"messages": [{"role": "user", "content": question}]})
    answer = state["messages"][-1]
    return str(answer.text) if isinstance(answer, AIMessage) else "no answer"


graph = create_agent(
    model,
    [find_order, find_product, find_ticket, ask_returns],
    system_prompt="You are the support agent of an outdoor shop. Use a tool, then answer in one sentence.",
    middleware=[at_most_three_calls],
    name="support",
)
