import pytest

from art_core.errors import AgentError, JudgeError, LimitReached, ProviderError, RewardError, ToolError, TrainerError
from art_core.rollout.failures import attribute, find_limit


class WireError(Exception):
    """What an OpenAI client raises: the answered error object is its ``body``."""

    def __init__(self, kind: str, message: str, code: str | None = None) -> None:
        super().__init__(f"Error code: 400 - {message}")
        self.body = {"type": kind, "message": message, "code": code}


def raised_from(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("no"), "agent: ValueError: no"),
        (AgentError("gave up"), "agent: gave up"),
        (ProviderError("down"), "provider: down"),
        (ToolError("gone"), "tool: gone"),
        (JudgeError("mute"), "judge: mute"),
        (RewardError("odd"), "reward: odd"),
        (TrainerError("nan"), "trainer: nan"),
        (WireError("provider_error", "cuda died"), "provider: cuda died"),
        (WireError("invalid_request_error", "n must be 1"), "agent: n must be 1"),
        (raised_from(RuntimeError("node failed"), ProviderError("down")), "provider: down"),
        (ExceptionGroup("many", [ToolError("gone")]), "tool: gone"),
        (raised_from(AgentError("gave up"), ToolError("gone")), "agent: gave up"),
    ],
)
def test_attribution(error, line) -> None:
    assert attribute(error) == line


def test_an_error_that_hides_its_context_is_its_own() -> None:
    error = ValueError("no")
    error.__context__, error.__suppress_context__ = ProviderError("down"), True
    assert attribute(error) == "agent: ValueError: no"


@pytest.mark.parametrize(
    "error",
    [
        LimitReached("max_turns", "16 turns"),
        raised_from(RuntimeError("node failed"), LimitReached("max_turns", "16 turns")),
        ExceptionGroup("many", [ValueError(), LimitReached("max_turns", "16 turns")]),
        WireError("rollout_limit", "16 turns", "max_turns"),
    ],
)
def test_a_limit_is_found_wherever_it_hides(error) -> None:
    limit = find_limit(error)
    assert limit is not None
    assert (limit.stop_reason, str(limit)) == ("max_turns", "16 turns")


def test_other_errors_are_no_limit() -> None:
    assert find_limit(ProviderError("down")) is None


def test_a_chain_that_bites_its_tail_ends() -> None:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert attribute(one) == "agent: ValueError: one"
