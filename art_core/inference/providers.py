"""Where the chat-completions services of providers are, and which environment variable holds the key of each."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from art_core.errors import InputError

__all__ = ["PROVIDERS", "HostedModel", "Provider", "find_hosted_model"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A service that speaks OpenAI's chat completions."""

    url: str
    """Its base URL; ``<NAME>_BASE_URL`` in the environment wins."""
    needs_key: bool = True
    """Whether ``<NAME>_API_KEY`` must be set."""
    length: str = "max_tokens"
    """What it calls the longest reply."""


PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider(url="https://api.openai.com/v1", length="max_completion_tokens"),
    "anthropic": Provider(url="https://api.anthropic.com/v1"),
    "gemini": Provider(url="https://generativelanguage.googleapis.com/v1beta/openai"),
    "openrouter": Provider(url="https://openrouter.ai/api/v1"),
    "groq": Provider(url="https://api.groq.com/openai/v1"),
    "mistral": Provider(url="https://api.mistral.ai/v1"),
    "together": Provider(url="https://api.together.xyz/v1"),
    "deepseek": Provider(url="https://api.deepseek.com/v1"),
    "ollama": Provider(url="http://localhost:11434/v1", needs_key=False),
    "vllm": Provider(url="http://localhost:8000/v1", needs_key=False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedModel:
    """One model of one service."""

    model: str
    url: str
    key: str
    length: str


def find_hosted_model(name: str, api_key: str | None = None) -> HostedModel:
    """The model that ``name`` means: ``provider/model``, or ``model@URL`` for any other service, whose key is in ``ART_API_KEY``
    if it needs one.

    Raises:
        InputError: another form, an unknown provider, or no key; the message names the variable.

    >>> find_hosted_model("qwen3-4b@http://127.0.0.1:8000/v1").url
    'http://127.0.0.1:8000/v1'
    """
    if match := re.fullmatch(r"(.+)@(https?://.+)", name):
        key = api_key or os.environ.get("ART_API_KEY") or "none"
        return HostedModel(model=match[1], url=match[2], key=key, length="max_tokens")
    provider, _, model = name.partition("/")
    if not model or provider not in PROVIDERS:
        raise InputError(
            f"model {name!r} is not of the form provider/model, with a provider of {', '.join(PROVIDERS)}, nor model@URL"
        )
    known, prefix = PROVIDERS[provider], provider.upper()
    key = api_key or os.environ.get(f"{prefix}_API_KEY") or ""
    if not key and known.needs_key:
        raise InputError(f"model {name!r} needs a key: set {prefix}_API_KEY in the environment")
    url = os.environ.get(f"{prefix}_BASE_URL") or known.url
    return HostedModel(model=model, url=url, key=key or "none", length=known.length)
