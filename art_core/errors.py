"""The one exception tree, and the boundary that says whose failure an escaping exception is.

ArtError
├── InputError            what the user gave cannot be used (exit code 2); also a ValueError
│   └── MissingExtra      an optional dependency is not installed; also an ImportError
├── BoundaryError         something failed while somebody else's code ran
│   ├── ProviderError     the policy or its engine
│   ├── ToolError         a tool or its server
│   ├── AgentError        the agent's own code
│   ├── RewardError       a reward function
│   │   └── JudgeError    an LLM judge
│   └── TrainerError      the trainer
│       └── NonFiniteError  a loss, gradient or logprob was NaN or infinite; nothing was updated
├── LimitReached          a rollout used up one of its limits; carries the stop reason
└── NotTrainable          samples were asked of a trajectory that has none; names the turn
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

__all__ = [
    "AgentError",
    "ArtError",
    "BoundaryError",
    "InputError",
    "JudgeError",
    "LimitReached",
    "MissingExtra",
    "NonFiniteError",
    "NotTrainable",
    "ProviderError",
    "RewardError",
    "ToolError",
    "TrainerError",
    "boundary",
    "describe",
]


class ArtError(Exception):
    """Base of everything this package raises on purpose."""


class InputError(ArtError, ValueError):
    """What the user gave cannot be used. The message names the thing, its value and what would be valid."""


class MissingExtra(InputError, ImportError):
    """An optional dependency is not installed; the message holds the install command."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed; install it with: pip install 'art-integrations[{extra}]'")
        self.package = package
        self.extra = extra

    def __reduce__(self) -> tuple[type[MissingExtra], tuple[str, str]]:
        return type(self), (self.package, self.extra)


class BoundaryError(ArtError):
    """Something failed while code on the other side of a boundary ran; the cause is chained."""


class ProviderError(BoundaryError):
    """The policy or its engine failed to answer."""


class ToolError(BoundaryError):
    """A tool call failed in a way the model cannot be told about."""


class AgentError(BoundaryError):
    """The agent's own code raised."""


class RewardError(BoundaryError):
    """A reward function raised or returned something that is not a reward."""


class JudgeError(RewardError):
    """A judge could not be made to answer validly."""


class TrainerError(BoundaryError):
    """The trainer failed."""


class NonFiniteError(TrainerError):
    """A loss, gradient or logprob was NaN or infinite. Raised before the optimizer step: no weight was changed."""


class LimitReached(ArtError):
    """A rollout used up one of its limits.

    ``stop_reason`` is the value that ends up in ``Trajectory.stop_reason``.
    """

    def __init__(self, stop_reason: str, message: str) -> None:
        super().__init__(message)
        self.stop_reason = stop_reason

    def __reduce__(self) -> tuple[type[LimitReached], tuple[str, str]]:
        return type(self), (self.stop_reason, str(self))


class NotTrainable(ArtError):
    """Samples were asked of a trajectory that has none; the message names the turn and the reason."""


@contextlib.contextmanager
def boundary(kind: type[BoundaryError], what: str) -> Iterator[None]:
    """Attribute an escaping exception to ``kind``.

    Exceptions of our own tree pass unchanged, so the innermost boundary wins. ``what`` opens the message, for example
    ``"reward 'score'"``. Cancellation and exits (``BaseException``) are never wrapped.
    """
    try:
        yield
    except ArtError:
        raise
    except Exception as error:  # every foreign failure becomes one typed, attributed error with its cause chained
        raise kind(f"{what}: {describe(error)}") from error


def describe(error: BaseException) -> str:
    """One line for an exception: its type and message; a group is unwrapped to its first leaf."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    text = " ".join(str(error).split())
    name = type(error).__name__
    if isinstance(error, ArtError):
        return text or name
    return f"{name}: {text}" if text else name
