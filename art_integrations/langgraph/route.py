"""What becomes of the model calls of one rollout: which are trained, and the model that answers those."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

from langchain_core.language_models import BaseChatModel

from art_core.errors import InputError
from art_core.rollout.session import Session

from .model import PolicyModel, policy_model, standing_in_for

__all__ = ["Route", "Select", "route_of", "set_route"]

_NAME = "langgraph.route"
Select = str | Collection[str] | Callable[[Mapping[str, Any]], bool]
"""Which calls are trained: the name of a model, node or agent, several of them, or a function of what ``describe_caller`` tells."""


class Route:
    """The way of one rollout's model calls. May be used from any thread."""

    def __init__(self, session: Session, train: Select | None = None) -> None:
        self.check(train)
        self._session = session
        self._train = train
        self._model: PolicyModel | None = None
        self._lock = threading.Lock()

    @staticmethod
    def check(train: Select | None) -> None:
        """
        Raises:
            InputError: it selects nothing.
        """
        if train is not None and not (callable(train) or (isinstance(train, Collection) and len(train) > 0)):
            raise InputError(f"train must name models, nodes or agents, or be a function, got {train!r}")

    def trains(self, about: Mapping[str, Any]) -> bool:
        """Whether the call that ``about`` describes goes to the policy; counts those that do not."""
        if self._train is None:
            return True
        if callable(self._train):
            chosen = bool(self._train(about))
        else:
            names = {self._train} if isinstance(self._train, str) else set(self._train)
            chosen = bool(names & {about.get(key) for key in ("model", "node", "agent")})
        if not chosen:
            self._session.count("environment_model_calls")
        return chosen

    def model_for(self, origin: BaseChatModel) -> PolicyModel:
        """The policy's model, in the place of ``origin``."""
        with self._lock:
            if self._model is None:
                self._model = policy_model(self._session)
        return standing_in_for(origin, self._model)


def route_of(session: Session) -> Route:
    """The route of a rollout; unless one was set, all its calls are trained."""
    route: Route = session.attached.get(_NAME) or session.attached.setdefault(_NAME, Route(session))
    return route


def set_route(session: Session, train: Select | None) -> None:
    """Choose what is trained in a rollout, before its first call."""
    session.attached[_NAME] = Route(session, train)
