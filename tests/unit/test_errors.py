import pickle

import pytest

from art_core import errors
from art_core.errors import (
    ArtError,
    InputError,
    JudgeError,
    LimitReached,
    MissingExtra,
    ProviderError,
    RewardError,
    ToolError,
    boundary,
    describe,
)


def test_everything_is_one_tree() -> None:
    kinds = [getattr(errors, name) for name in errors.__all__ if isinstance(getattr(errors, name), type)]
    assert len(kinds) == 13
    assert all(issubclass(kind, ArtError) for kind in kinds)


def test_bad_input_is_also_a_value_error() -> None:
    assert issubclass(InputError, ValueError)
    assert issubclass(MissingExtra, ImportError)


def test_a_missing_extra_names_the_install_command() -> None:
    assert (
        str(MissingExtra("mcp", "mcp")) == "mcp is not installed; install it with: pip install 'art-integrations[mcp]'"
    )


@pytest.mark.parametrize("error", [MissingExtra("mcp", "mcp"), LimitReached("max_turns", "16 turns")])
def test_errors_with_fields_survive_pickling(error) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_a_boundary_attributes_a_foreign_error_and_chains_it() -> None:
    cause = KeyError("answer")
    with (
        pytest.raises(RewardError, match="reward 'score': KeyError: 'answer'") as caught,
        boundary(RewardError, "reward 'score'"),
    ):
        raise cause
    assert caught.value.__cause__ is cause


def test_the_innermost_boundary_wins() -> None:
    with (
        pytest.raises(ToolError, match="tool 'add': ValueError: no"),
        boundary(ProviderError, "policy"),
        boundary(ToolError, "tool 'add'"),
    ):
        raise ValueError("no")


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_a_boundary_lets_exits_pass(kind) -> None:
    with pytest.raises(kind), boundary(ToolError, "tool"):
        raise kind


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("two\n  lines"), "ValueError: two lines"),
        (ValueError(), "ValueError"),
        (JudgeError("no scores"), "no scores"),
        (JudgeError(), "JudgeError"),
        (ExceptionGroup("many", [ExceptionGroup("inner", [OSError("disk")]), ValueError()]), "OSError: disk"),
    ],
)
def test_describe_is_one_line(error, line) -> None:
    assert describe(error) == line
