"""Methods are wrapped once, and put back as they were."""

from __future__ import annotations

import inspect

import pytest

from art_core.rollout.patching import Patches, installing


class Speaker:
    def say(self):
        return "hello"

    async def asay(self):
        return "hello"


def aloud(original):
    return lambda speaker: original(speaker).upper()


def untouched():
    return Speaker.__dict__["say"], Speaker.__dict__["asay"]


@pytest.fixture(autouse=True)
def _stays_as_it_was():
    before = untouched()
    yield
    assert untouched() == before


def test_what_is_installed_is_wrapped_and_put_back():
    before = untouched()
    patches = Patches([(Speaker, "say", aloud), (Speaker, "asay", lambda original: original)])
    assert (Speaker().say(), patches.installed()) == ("hello", False)
    patches.install()
    assert (Speaker().say(), patches.installed()) == ("HELLO", True)
    patches.uninstall()
    assert all(now is then for now, then in zip(untouched(), before, strict=True))
    assert not patches.installed()


def test_installing_twice_is_installing_once():
    begun = []

    def begin():
        begun.append("begun")
        return lambda: begun.append("ended")

    patches = Patches([(Speaker, "say", aloud)], beside=[begin])
    patches.install()
    once = Speaker.say
    patches.install()
    assert Speaker.say is once
    patches.uninstall()
    patches.uninstall()
    assert begun == ["begun", "ended"]


def test_it_can_be_installed_again():
    patches = Patches([(Speaker, "say", aloud)])
    for _ in range(2):
        patches.install()
        assert Speaker().say() == "HELLO"
        patches.uninstall()
        assert Speaker().say() == "hello"


def test_what_runs_beside_is_there_for_every_wrapped_call():
    seen = []

    def begin():
        seen.append(Speaker().say())
        return lambda: seen.append(Speaker().say())

    patches = Patches([(Speaker, "say", aloud)], beside=[begin])
    patches.install()
    patches.uninstall()
    assert seen == ["hello", "hello"]


def test_patches_lie_on_one_another():
    first, second = Patches([(Speaker, "say", aloud)]), Patches([(Speaker, "say", lambda original: lambda _: "!")])
    first.install()
    second.install()
    assert Speaker().say() == "!"
    second.uninstall()
    assert Speaker().say() == "HELLO"
    first.uninstall()


def test_a_method_that_is_not_there_changes_nothing():
    ended = []
    patches = Patches([(Speaker, "say", aloud), (Speaker, "sing", aloud)], beside=[lambda: lambda: ended.append(1)])
    with pytest.raises(AttributeError, match="sing"):
        patches.install()
    assert (Speaker().say(), patches.installed(), ended) == ("hello", False, [1])


def test_a_function_that_installs_hooks_is_otherwise_the_same():
    patches = Patches([(Speaker, "say", aloud)])

    def ask(speaker, *, times=1):
        """Ask."""
        return speaker.say() * times

    ask_hooked = installing(ask, patches.install)
    assert ask_hooked(Speaker(), times=2) == "HELLOHELLO"
    assert (inspect.signature(ask_hooked), ask_hooked.__doc__) == (inspect.signature(ask), "Ask.")
    patches.uninstall()
    assert ask_hooked(Speaker()) == "HELLO"
    patches.uninstall()
