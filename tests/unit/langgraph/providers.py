"""Chat models of four providers, none of which can be reached."""

from __future__ import annotations

from langchain_anthropic import ChatAnthropic
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_ollama import ChatOllama

from .graphs import production_model

MODELS = {
    "openai": production_model,
    "anthropic": lambda: ChatAnthropic(model="claude-sonnet-5", api_key="none", base_url="http://127.0.0.1:9"),
    "gemini": lambda: ChatGoogleGenerativeAI(model="gemini-3-pro", google_api_key="none"),
    "ollama": lambda: ChatOllama(model="qwen3", base_url="http://127.0.0.1:9", validate_model_on_init=False),
}
