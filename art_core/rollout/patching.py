"""Methods of foreign classes that are wrapped for a time: how the hooks of this process come and go."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any, ParamSpec, TypeVar

__all__ = ["Patches", "Wrap", "installing"]

P = ParamSpec("P")
T = TypeVar("T")

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Of a method, what stands in its place."""


class Patches:
    """Nothing is changed until ``install``. All of it is safe to call from several threads.

    Args:
        wrapped: of every method the class, its name there and what wraps it.
        beside: what begins just before the methods are wrapped and ends just after they are put back: functions that begin it and
            return what ends it.
    """

    def __init__(
        self, wrapped: Iterable[tuple[type, str, Wrap]], *, beside: Iterable[Callable[[], Callable[[], None]]] = ()
    ) -> None:
        self._wrapped = tuple(wrapped)
        self._beside = tuple(beside)
        self._lock = threading.Lock()
        self._undo: ExitStack | None = None

    def install(self) -> None:
        """Wrap the methods; a second call does nothing.

        Raises:
            AttributeError: a class has no such method; nothing is changed then.
        """
        with self._lock, ExitStack() as undo:
            if self._undo is not None:
                return
            for begin in self._beside:
                undo.callback(begin())
            for owner, name, wrap in self._wrapped:
                original = getattr(owner, name)
                undo.callback(setattr, owner, name, original)
                setattr(owner, name, wrap(original))
            self._undo = undo.pop_all()

    def uninstall(self) -> None:
        """Put the methods back; without ``install`` it does nothing."""
        with self._lock:
            undo, self._undo = self._undo, None
            if undo is not None:
                undo.close()

    def installed(self) -> bool:
        """Whether the methods are wrapped now."""
        return self._undo is not None


def installing(function: Callable[P, T], *installs: Callable[[], None]) -> Callable[P, T]:
    """``function``, with hooks installed on every call before it runs: the same arguments, result and description."""

    @functools.wraps(function)
    def installed(*args: P.args, **kwargs: P.kwargs) -> T:
        for install in installs:
            install()
        return function(*args, **kwargs)

    return installed
