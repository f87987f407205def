"""``capture`` for code that runs a LangGraph graph."""

from __future__ import annotations

from art_core.rollout import capture as core
from art_core.rollout.patching import installing
from art_integrations import openai_sdk

from .hook import install

__all__ = ["capture"]

capture = installing(core.capture, install, openai_sdk.install)
"""``art_core.capture``, with the hooks for chat models of LangChain and for the ``openai`` SDK installed."""
