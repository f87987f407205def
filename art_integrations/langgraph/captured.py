"""Whether a graph that ended had any part in its rollout: one without a model call teaches nothing, and is told."""

from __future__ import annotations

from typing import Any

from art_core.errors import InputError
from art_core.inference.original import OriginalPolicy
from art_core.rollout.session import Session

__all__ = ["check_captured"]


def check_captured(session: Session, train: Any) -> None:
    """
    Args:
        train: what selected the calls, as the user gave it.

    Raises:
        InputError: the graph ended, and called no model, or only such as are not trained.
    """
    trajectory = session.trajectory
    asked = isinstance(session.policy, OriginalPolicy) and trajectory.model_calls
    tried = trajectory.metrics.get("provider_errors")  # the policy was asked, and failed
    if trajectory.turns or asked or tried or session.limit is not None:
        return
    if not trajectory.model_calls:
        raise InputError(
            "the graph ended without calling a chat model, so there is nothing to train; calls through LangChain and the openai "
            "SDK are seen, those under art.no_capture() and of other clients are not"
        )
    seen = sorted({name for call in trajectory.model_calls for name in _names(call.metadata)})
    raise InputError(
        f"none of the graph's model calls is trained: train={train!r}, and what called was {', '.join(seen)}; name one of "
        "these with train="
    )


def _names(about: Any) -> list[str]:
    return [f"{key} {about[key]!r}" for key in ("agent", "node", "model") if about.get(key)]
