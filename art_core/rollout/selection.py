"""Which model calls of a rollout are trained, and as which adapter."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from art_core.errors import InputError
from art_core.trajectory.graph import DEFAULT_ADAPTER

__all__ = ["Select", "Selection"]

Select = str | Collection[str] | Mapping[str, str] | Callable[[Mapping[str, Any]], bool]
"""The name of a model, node or agent; several of them; such names and the adapter of each; or a function of what is
known about a call."""

_NAMED_BY = ("agent", "node", "model")
"""What of a call ``Select`` can name, the most specific first."""


class Selection:
    """
    Args:
        train: which calls; None for all. Of a mapping every value is an adapter that is trained with the calls of its
            names; several names may share one.

    Raises:
        InputError: it selects nothing, or a name or adapter is not a text.

    >>> Selection({"planner": "plans", "writer": "texts"}).adapter_for({"node": "writer", "model": "gpt-5"})
    'texts'
    """

    def __init__(self, train: Select | None = None) -> None:
        self._train = {train} if isinstance(train, str) else train
        named = self._train is None or callable(self._train)
        if not named and not (isinstance(self._train, Collection) and len(self._train) > 0):
            raise InputError(f"train must name models, nodes or agents, or be a function, got {train!r}")
        pairs = self._train.items() if isinstance(self._train, Mapping) else ()
        for name, adapter in pairs:
            if not isinstance(adapter, str) or not adapter.replace("-", "").replace("_", "").isalnum():
                raise InputError(
                    f"train gives {name!r} the adapter {adapter!r}; its name is to be made of letters, digits, - and _"
                )
        self.adapters: tuple[str, ...] = tuple(dict.fromkeys(adapter for _, adapter in pairs)) or (DEFAULT_ADAPTER,)
        """The adapters there are, in the order they are named."""

    def adapter_for(self, about: Mapping[str, Any]) -> str | None:
        """The adapter that answers a call; None if the call is not trained.

        Where several names of a call are selected, its agent counts before its node, and that before its model.
        """
        if self._train is None:
            return DEFAULT_ADAPTER
        if callable(self._train):
            return DEFAULT_ADAPTER if self._train(about) else None
        for key in _NAMED_BY:
            if (name := about.get(key)) in self._train:
                return self._train[name] if isinstance(self._train, Mapping) else DEFAULT_ADAPTER
        return None


class SelectingAgent:
    """An agent of which some calls are trained: what a run, and a warm start, ask it about them.

    Args:
        train: see ``Selection``.
    """

    def __init__(self, train: Select | None = None) -> None:
        self._selection = Selection(train)

    @property
    def selection(self) -> Selection:
        """Which of its calls are trained, and as which adapter."""
        return self._selection

    @property
    def adapters(self) -> tuple[str, ...]:
        """The adapters that its calls are trained as."""
        return self._selection.adapters
