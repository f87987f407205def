"""``capture`` for code that calls the ``openai`` SDK."""

from __future__ import annotations

from art_core.rollout import capture as core
from art_core.rollout.patching import installing

from .hook import install

__all__ = ["capture"]

capture = installing(core.capture, install)
"""``art_core.capture``, with the hook of this integration installed."""
