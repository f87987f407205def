"""Integrations: how agents, CLI verbs, scenario sources and sinks reach the product from outside the core.

A distribution declares an entry point in the group ``art.integrations`` that names an ``Integration``; ours use the
same door. An integration that cannot be loaded is reported once and left out; it never takes another one down. Two
integrations may not offer the same thing: asking for it names both.

    [project.entry-points."art.integrations"]
    weather = "art_weather.plugin:integration"

The module named there is imported by every ``art`` command. Keep it light: give verbs as ``"module:function"``, and
import frameworks inside the factories.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import InputError, MissingExtra, describe
from .rollout.protocol import Agent
from .scenario import Scenario

if TYPE_CHECKING:
    from .observe.sinks import Sink

__all__ = ["GROUP", "Integration", "Integrations", "Offer", "Verb", "integrations", "made_with"]

GROUP = "art.integrations"

Options = Mapping[str, Any]
K = TypeVar("K")
T = TypeVar("T")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A command of the ``art`` program.

    >>> Verb(path=("train", "weather"), command="art_weather.cli:train", help="Train on weather questions.").name
    'train weather'
    """

    path: tuple[str, ...]
    """The words after ``art``: one for a verb of its own, two to join an existing group such as ``train``."""
    command: str | Callable[..., Any]
    """A function whose signature is the command line, or ``"module:function"``, imported when the verb is used."""
    help: str
    """One sentence for the overview. The function's docstring is what ``--help`` shows; put an example there."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.path) <= 2 or not all(word and not word.startswith("-") for word in self.path):
            raise InputError(
                f"verb path {self.path!r} is not valid; it is one or two words, as in ('train', 'weather')"
            )

    @property
    def name(self) -> str:
        return " ".join(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Integration:
    """What one foreign framework or service adds. Every factory is called with the options the user wrote."""

    name: str
    agents: Mapping[str, Callable[[Options], Agent]] = field(default_factory=dict)
    """Agent kind → factory."""
    verbs: tuple[Verb, ...] = ()
    scenario_sources: Mapping[str, Callable[[Options], Iterable[Scenario]]] = field(default_factory=dict)
    """Source kind → a factory that yields the scenarios."""
    sinks: Mapping[str, Callable[[Options], Sink]] = field(default_factory=dict)
    """Sink kind → a factory of an ``observe.sinks.Sink``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One thing on offer, and by whom."""

    value: Any
    owners: tuple[str, ...]
    """Each as ``'name' (distribution)``; more than one means a clash."""

    def take(self, what: str) -> Any:
        """The value.

        Raises:
            InputError: two integrations offer it; both are named.
        """
        if len(self.owners) > 1:
            raise InputError(f"{what} is offered by {' and by '.join(self.owners)}; uninstall all but one of them")
        return self.value


class Integrations:
    """The integrations that could be loaded, and why the others could not."""

    def __init__(self, found: Iterable[EntryPoint]) -> None:
        self.failures: dict[str, Exception] = {}
        """Entry point name → what loading it raised."""
        self._agents: dict[str, Offer] = {}
        self._verbs: dict[tuple[str, ...], Offer] = {}
        self._sources: dict[str, Offer] = {}
        self._sinks: dict[str, Offer] = {}
        for entry in sorted(found, key=lambda entry: (entry.name, entry.value)):
            owner = f"{entry.name!r} ({entry.dist.name if entry.dist else entry.value})"
            try:
                self._add(_load(entry), owner)
            except MissingExtra as error:  # told when it is asked for: not having an extra is a choice
                self.failures[entry.name] = error
            except Exception as error:  # noqa: BLE001 - foreign code; its failure is reported and others go on
                self.failures[entry.name] = error
                logger.warning("warning: integration %s could not be loaded: %s", owner, describe(error))

    def agent(self, kind: str, options: Options) -> Agent:
        """A new agent of a kind. Raises InputError for an unknown kind, naming the valid ones."""
        agent: Agent = self._find("agent kind", self._agents, kind)(options)
        return agent

    def scenarios(self, kind: str, options: Options) -> list[Scenario]:
        """The scenarios of a source. Raises InputError for an unknown kind, naming the valid ones."""
        return list(self._find("scenario source", self._sources, kind)(options))

    def sink(self, kind: str, options: Options) -> Sink:
        """A new sink. Raises InputError for an unknown kind, naming the valid ones."""
        sink: Sink = self._find("sink", self._sinks, kind)(options)
        return sink

    def verbs(self) -> Mapping[tuple[str, ...], Offer]:
        """Path → the ``Verb`` on offer there."""
        return dict(self._verbs)

    def why_missing(self, name: str) -> str | None:
        """Why the integration ``name`` is not there, or None when nothing of that name failed to load."""
        error = self.failures.get(name)
        return None if error is None else f"integration {name!r} could not be loaded: {describe(error)}"

    def _add(self, integration: Integration, owner: str) -> None:
        _offer(self._agents, integration.agents, owner)
        _offer(self._verbs, {verb.path: verb for verb in integration.verbs}, owner)
        _offer(self._sources, integration.scenario_sources, owner)
        _offer(self._sinks, integration.sinks, owner)

    def _find(self, what: str, table: Mapping[str, Offer], kind: str) -> Any:
        if kind in table:
            return table[kind].take(f"{what} {kind!r}")
        if reason := self.why_missing(kind):
            raise InputError(f"{what} {kind!r} is not available: {reason}")
        close = difflib.get_close_matches(kind, table, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise InputError(f"unknown {what} {kind!r}; valid ones: {', '.join(sorted(table)) or 'none'}{hint}")


@functools.cache
def integrations() -> Integrations:
    """The integrations installed in this environment, loaded once per process."""
    importlib.invalidate_caches()
    return Integrations(entry_points(group=GROUP))


def made_with(make: Callable[..., T], options: Options, *, what: str) -> T:
    """``make(**options)``.

    Raises:
        InputError: it does not take these options; ``what`` opens the message.
    """
    try:
        return make(**options)
    except TypeError as error:
        raise InputError(f"{what} does not take these options: {error}") from error


def _offer(table: dict[K, Offer], offered: Mapping[K, Any], owner: str) -> None:
    for key, value in offered.items():
        earlier = table[key].owners if key in table else ()
        table[key] = Offer(value=value, owners=(*earlier, owner))


def _load(entry: EntryPoint) -> Integration:
    loaded = entry.load()
    if not isinstance(loaded, Integration):
        raise InputError(
            f"entry point {entry.value!r} is a {type(loaded).__name__}, not an art_core.plugins.Integration"
        )
    return loaded
