"""Python objects by reference, and agents and rewards by the record that run.toml keeps of them."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from typing import Any

from art_core.errors import InputError, describe
from art_core.plugins import integrations, made_with
from art_core.rewards.protocol import GroupReward, RewardLike
from art_core.rollout.protocol import Agent

__all__ = ["load_called", "load_reference", "make_agent", "make_reward"]


def load_reference(reference: str, *, what: str) -> Any:
    """The object that ``module:name`` names; modules in the current directory can be imported.

    Args:
        what: what it is for, in the error: ``agent``, ``reward``.

    Raises:
        InputError: the form is another one, the module cannot be found or imported, or it has no such name.
    """
    module_name, _, path = reference.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), *path.split("."))):
        raise InputError(f"{what} {reference!r} is not of the form module:name, such as my_agent:run")
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise InputError(f"{what} {reference!r}: importing {module_name!r} failed: {describe(error)}") from error
        raise InputError(
            f"{what} {reference!r}: there is no module {error.name!r} here or among the installed packages"
        ) from error
    except Exception as error:  # the user's module may raise anything; it is told as bad input, with the cause chained
        raise InputError(f"{what} {reference!r}: importing {module_name!r} failed: {describe(error)}") from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise InputError(f"{what} {reference!r}: module {module_name!r} has no {path!r}")
        found = getattr(found, part)
    return found


def make_agent(record: Mapping[str, Any]) -> Agent:
    """The agent of a record: a kind of an integration and its options; ``{"function": "module:name"}`` is of kind ``python``.

    Raises:
        InputError: an unknown kind, or options that cannot be used.
    """
    options = {key: value for key, value in record.items() if key != "kind"}
    return integrations().agent(record.get("kind", "python"), options)


def make_reward(record: Mapping[str, Any]) -> RewardLike:
    """The reward of a record: ``{"function": "module:name"}``; with ``options``, what the function returns for them.

    Raises:
        InputError: a function that cannot be used.
    """
    reward: RewardLike = load_called({key: value for key, value in record.items() if key != "kind"}, what="reward")
    return reward


def load_called(record: Mapping[str, Any], *, what: str) -> Any:
    """What ``{"function": "module:name"}`` names; with ``options``, what it returns for them.

    Raises:
        InputError: another key, or nothing there that can be called.
    """
    unknown = sorted(record.keys() - {"function", "options"})
    if unknown or not isinstance(record.get("function"), str):
        problem = f"has the unknown key {unknown[0]!r}" if unknown else "has no function"
        raise InputError(
            f'{what} {problem}; it is written function = "module:name", with options = {{...}} if it needs any'
        )
    reference = record["function"]
    found = load_reference(reference, what=what)
    if "options" in record:
        found = made_with(found, record["options"], what=f"{what} {reference!r}")
    if not callable(found) and not isinstance(found, GroupReward):
        raise InputError(f"{what} {reference!r} is a {type(found).__name__}, which cannot be called")
    return found
