"""An agent whose harmful tool waits for a person, who may also change its arguments."""

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langgraph.checkpoint.memory import InMemorySaver

sent = []


def find_address(name: str) -> str:
    """Find the address of a customer."""
    return f"{name.lower()}@example.org"


def send_mail(to: str, text: str) -> str:
    """Send a mail to a customer."""
    sent.append((to, text))
    return "sent"


graph = create_agent(
    "anthropic:claude-sonnet-5",
    [find_address, send_mail],
    system_prompt="You write to customers.",
    middleware=[HumanInTheLoopMiddleware(interrupt_on={"send_mail": True, "find_address": False})],
    checkpointer=InMemorySaver(),
)
