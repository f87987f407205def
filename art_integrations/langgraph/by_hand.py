"""``capture`` for code that runs a LangGraph graph."""

from __future__ import annotations

from art_core.inference.protocol import Policy
from art_core.rollout.capture import Capture
from art_core.rollout.capture import capture as capture_sessions
from art_core.rollout.limits import Limits
from art_core.rollout.selection import Select
from art_core.scenario import Scenario
from art_integrations import openai_sdk

from .hook import install

__all__ = ["capture"]


def capture(
    policy: Policy,
    *,
    scenario: Scenario | None = None,
    limits: Limits | None = None,
    train: Select | None = None,
) -> Capture:
    """``art_core.capture``, with the hooks for chat models of LangChain and for the ``openai`` SDK installed."""
    install()
    openai_sdk.install()
    return capture_sessions(policy, scenario=scenario, limits=limits, train=train)
