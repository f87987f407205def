"""What a trajectory of a scripted policy holds, in words."""

from __future__ import annotations

import art_core as art


def said(trajectory):
    """The replies, as the model wrote them."""
    renderer = art.ScriptedPolicy([]).renderer
    return [renderer.text(turn.completion_ids[:-1]) for turn in trajectory.turns]
