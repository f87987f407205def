"""Which rollout the running code belongs to, so that calls of foreign libraries can find their session.

The runner ``bind``s a session around the agent. The binding follows everything that copies the context: awaits, tasks,
``asyncio.to_thread``, the executors of agent frameworks. A thread that was started raw has no context; while somebody
``watch``es, such threads remember which rollout they descend from, so that a call from there can be refused instead of
reaching the service that the agent uses in production.

Who knows what::

    code in the rollout's context    current() -> its session
    a raw thread of a rollout        current() -> None, ancestor() -> that session
    no_capture(), unrelated code     current() -> None, ancestor() -> None

``session_of_call`` is what hooks ask: the first, an error in the second case, None in the third.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from art_core.errors import InputError

from .patching import Patches

if TYPE_CHECKING:
    from .session import Session

__all__ = ["ancestor", "bind", "current", "no_capture", "session_of_call", "watch"]

_bound: contextvars.ContextVar[Session | None] = contextvars.ContextVar("art_session", default=None)
_ignored: contextvars.ContextVar[bool] = contextvars.ContextVar("art_no_capture", default=False)


def current() -> Session | None:
    """The session of the rollout this code runs in; None outside of one, and under ``no_capture``."""
    return None if _ignored.get() else _bound.get()


@contextlib.contextmanager
def bind(session: Session) -> Iterator[None]:
    """Make ``session`` the current one for this context, and for what inherits it."""
    token, ignored = _bound.set(session), _ignored.set(False)
    try:
        yield
    finally:
        _bound.reset(token)
        _ignored.reset(ignored)


@contextlib.contextmanager
def no_capture() -> Iterator[None]:
    """Leave model calls of this block alone, inside a rollout too: those of a judge, a helper, a simulated user.

    >>> with no_capture():
    ...     current() is None
    True
    """
    token = _ignored.set(True)
    try:
        yield
    finally:
        _ignored.reset(token)


def ancestor() -> Session | None:
    """The session of the rollout that this raw thread descends from; None if it has a context of its own or no rollout."""
    if _ignored.get() or _bound.get() is not None:
        return None
    return _descent.get(threading.current_thread())


def session_of_call(what: str) -> Session | None:
    """The session that a call of ``what`` (a model's class, say) made here belongs to; None if it is to be left alone.

    Raises:
        InputError: it is made in a raw thread of a rollout; the message says what to do about it.
    """
    session = current()
    if session is None and (started_by := ancestor()) is not None:
        raise InputError(
            f"{what} was called in a thread that rollout {started_by.rollout_id!r} started without its context, so the call "
            "cannot be part of the rollout and was not sent anywhere; start such threads with contextvars.copy_context().run, "
            "asyncio.to_thread or langchain's ContextThreadPoolExecutor, or, for a model that is not trained, call it under "
            "art.no_capture()"
        )
    return session


class _Descent:
    """The rollouts that threads descend from, recorded while at least one watcher is there."""

    def __init__(self) -> None:
        self._work = threading.local()
        self._watchers = 0
        self._lock = threading.Lock()
        self._patches = Patches(
            ((threading.Thread, "start", self._starter), (ThreadPoolExecutor, "submit", self._submitter))
        )

    def get(self, thread: threading.Thread) -> Session | None:
        if hasattr(self._work, "session"):  # what a pool's worker does now, not who started it
            session: Session | None = self._work.session
            return session
        return getattr(thread, "_art_session", None)

    def here(self) -> Session | None:
        """What a thread started or a job submitted here descends from."""
        return None if _ignored.get() else _bound.get() or self.get(threading.current_thread())

    def add_watcher(self) -> None:
        with self._lock:
            self._watchers += 1
            if self._watchers == 1:
                self._patches.install()

    def remove_watcher(self) -> None:
        with self._lock:
            self._watchers -= 1
            if self._watchers == 0:
                self._patches.uninstall()

    def _starter(self, start: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(start)
        def recorded(thread: threading.Thread) -> None:
            thread._art_session = self.here()  # type: ignore[attr-defined]
            start(thread)

        return recorded

    def _submitter(self, submit: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(submit)
        def recorded(pool: ThreadPoolExecutor, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            return submit(pool, self._job, self.here(), function, *args, **kwargs)

        return recorded

    def _job(self, session: Session | None, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        self._work.session = session
        try:
            return function(*args, **kwargs)
        finally:
            del self._work.session


_descent = _Descent()


def watch() -> Callable[[], None]:
    """Record from now on what threads descend from; returns what ends that. For whoever intercepts calls."""
    _descent.add_watcher()
    ended = False

    def end() -> None:
        nonlocal ended
        if not ended:
            ended = True
            _descent.remove_watcher()

    return end
