"""Whose failure an exception is that escaped from an agent: a limit, or one attributed line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from art_core.errors import (
    ArtError,
    BoundaryError,
    JudgeError,
    LimitReached,
    ProviderError,
    RewardError,
    ToolError,
    TrainerError,
    describe,
)

if TYPE_CHECKING:
    from .session import Session

__all__ = ["attribute", "conclude", "find_limit"]

_KINDS: tuple[tuple[type[ArtError], str], ...] = (
    (ProviderError, "provider"),
    (ToolError, "tool"),
    (JudgeError, "judge"),
    (RewardError, "reward"),
    (TrainerError, "trainer"),
)


def find_limit(error: BaseException) -> LimitReached | None:
    """The limit that made ``error`` happen, whether raised as ours or answered to an OpenAI client; None if none did."""
    for link in _links(error):
        if isinstance(link, LimitReached):
            return link
        body = _wire_body(link)
        if body.get("type") == "rollout_limit":
            return LimitReached(str(body.get("code")), str(body.get("message")))
    return None


def attribute(error: BaseException) -> str:
    """``error`` in one line that opens with whose failure it is: provider, tool, judge, reward, trainer or agent."""
    for link in _links(error):
        for kind, name in _KINDS:
            if isinstance(link, kind):
                return f"{name}: {describe(link)}"
        body = _wire_body(link)
        if body.get("type") == "provider_error":
            return f"provider: {body.get('message')}"
        if body.get("type") == "invalid_request_error":
            return f"agent: {body.get('message')}"
        if isinstance(link, BoundaryError):
            break
    return f"agent: {describe(error)}"


def conclude(session: Session, error: BaseException | None) -> None:
    """Set stop reason and error of a trajectory whose agent ended: by ``error``, or well if that is None."""
    trajectory = session.trajectory
    if error is None:
        trajectory.stop_reason = session.limit.stop_reason if session.limit else "finished"
        return
    found = find_limit(error)
    limit = found or session.limit
    if limit is None:
        trajectory.stop_reason, trajectory.error = "error", attribute(error)
        return
    trajectory.stop_reason = limit.stop_reason
    if found is None:
        trajectory.metadata["error_after_limit"] = describe(error)


def _wire_body(error: BaseException) -> Mapping[str, Any]:
    """The error object an OpenAI client was answered, without importing that client."""
    body = getattr(error, "body", None)
    return body if isinstance(body, Mapping) else {}


def _links(error: BaseException) -> Iterator[BaseException]:
    """``error``, the leaves of groups, and what they were raised from, the outermost first."""
    seen: set[int] = set()
    pending = [error]
    while pending:
        link = pending.pop(0)
        if id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        if isinstance(link, BaseExceptionGroup):
            pending.extend(link.exceptions)
        cause = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
        if cause is not None:
            pending.append(cause)
