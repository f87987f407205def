"""What this integration adds to ``art``: the agent kind ``python``, of which ``art train python`` makes one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from art_core.errors import InputError
from art_core.plugins import Integration, made_with
from art_core.rollout.protocol import Agent, AgentWithEnvironment, AgentWithTools

__all__ = ["integration", "make_agent"]

_OWN = ("input", "train")


def make_agent(options: Mapping[str, Any]) -> Agent:
    """A ``PythonAgent`` of ``function``, given as ``module:name`` (with ``options``, of what it returns for them), with the options
    ``input`` (``module:name``) and ``train``; see there. An agent that opens an environment or keeps its tools' answers is taken as
    it is.

    Raises:
        InputError: an unknown option, or a value that cannot be used.
    """
    from art_core.cli.references import load_called, load_reference

    from . import PythonAgent, install

    found = load_called({name: value for name, value in options.items() if name not in _OWN}, what="agent")
    own = {name: options[name] for name in _OWN if options.get(name) is not None}
    if isinstance(found, AgentWithEnvironment | AgentWithTools):
        if own:
            raise InputError(
                f"agent {options['function']!r} is more than a function, so {next(iter(own))} is its own to decide"
            )
        install()
        return found
    if "input" in own:
        own["input"] = load_reference(own["input"], what="input")
    return made_with(PythonAgent, {"function": found, **own}, what="agent kind 'python'")


integration = Integration(name="openai_sdk", agents={"python": make_agent})
