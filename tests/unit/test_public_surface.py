"""The public names are a decision: each resolves, nothing else is public, and the list is sorted."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

import art_core
import art_core as art


@pytest.mark.parametrize("name", art.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(art, name) is not None


def test_the_public_names_are_sorted() -> None:
    assert art.__all__ == sorted(art.__all__, key=str.lower)


def test_nothing_else_is_public() -> None:
    for name in art.__all__:
        getattr(art, name)
    modules = {module.name for module in pkgutil.iter_modules(art.__path__)}
    helpers = {"annotations", "import_module", "version", "TYPE_CHECKING", "Any"}
    extra = {name for name in vars(art) if not name.startswith("_")} - modules - helpers - set(art.__all__)
    assert extra == set()


def test_dir_lists_names_that_were_not_used_yet() -> None:
    assert set(art.__all__) <= set(dir(art))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'art_core' has no attribute 'trane'"):
        _ = art.trane  # type: ignore[attr-defined]


def test_rollout_is_a_function_even_after_its_package_was_imported() -> None:
    importlib.import_module("art_core.rollout.limits")
    from art_core.rollout.runner import rollout

    assert callable(art.rollout)
    parameters = inspect.signature(rollout).parameters
    assert list(parameters)[:3] == ["agent", "scenario", "policy"]


async def test_rollout_can_be_awaited() -> None:
    async def agent(scenario: art.Scenario, session: art.Session) -> str:
        reply = await session.chat([{"role": "user", "content": scenario.input}])
        return reply.choices[0].message.content or ""

    trajectory = await art_core.rollout(agent, art.Scenario("q", "hello"), art.ScriptedPolicy(["hi"]))
    assert trajectory.output == "hi"
