"""A rollout of code that the user drives: no agent and no runner, the model calls of a block are its turns."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import ExitStack
from types import TracebackType

from art_core.errors import InputError, LimitReached
from art_core.inference.protocol import Policy
from art_core.scenario import Scenario
from art_core.trajectory.superseded import client_retries
from art_core.trajectory.trajectory import Trajectory

from .current import bind, current
from .failures import conclude
from .limits import Limits
from .selection import Select, Selection
from .session import Session
from .side_loop import side_loop

__all__ = ["Capture", "capture"]


class Capture:
    """See ``capture``. A context manager, for ``with`` and ``async with``; it may be entered once."""

    def __init__(self, policy: Policy, scenario: Scenario, limits: Limits | None, selection: Selection) -> None:
        self._policy = policy
        self._scenario = scenario
        self._limits = limits
        self._selection = selection
        self._session: Session | None = None
        self._bound = ExitStack()
        self._beside = False
        """Whether the session lives on a loop beside this thread."""

    @property
    def session(self) -> Session:
        """What the block is bound to: for calls of its own.

        Raises:
            InputError: the block has not begun.
        """
        if self._session is None:
            raise InputError("there is no session before the block of capture begins")
        return self._session

    def __enter__(self) -> Trajectory:
        if self._session is not None:
            raise InputError("this capture was used already; make one for every block")
        if (running := current()) is not None:
            raise InputError(
                f"capture was entered inside rollout {running.rollout_id!r}, whose turns the calls of this code are already; leave "
                "it out, or enter it under art.no_capture() for a trajectory of its own"
            )
        try:
            asyncio.get_running_loop()
            self._session = self._make()
        except RuntimeError:
            self._beside = True
            self._session = asyncio.run_coroutine_threadsafe(self._make_there(), side_loop()).result()
        self._bound.enter_context(bind(self._session))
        return self._session.trajectory

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        over = self._end(error)
        if self._beside:
            asyncio.run_coroutine_threadsafe(self.session.crossing.close(over), side_loop()).result()
        else:
            self.session.crossing.shut(over)

    async def __aenter__(self) -> Trajectory:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.session.crossing.close(self._end(error))

    def _make(self) -> Session:
        session = Session(
            self._policy,
            self._scenario,
            rollout_id=f"{self._scenario.id}-{uuid.uuid4().hex[:12]}",
            limits=self._limits,
        )
        session.selection = self._selection
        session.trajectory.metadata["rng_parts"] = list(session.rng_parts)
        return session

    async def _make_there(self) -> Session:
        return self._make()

    def _end(self, error: BaseException | None) -> LimitReached:
        """Finish the trajectory; what later calls are told."""
        self._bound.close()
        session = self.session
        if error is None or isinstance(error, Exception):
            conclude(session, error)
        else:
            session.trajectory.stop_reason = "cancelled"
            session.trajectory.unscore("not scored: the block was left before its end")
        session.trajectory.superseded |= client_retries(session.trajectory.graph)
        session.finished = True
        session.trajectory.seconds = session.elapsed()
        return LimitReached("finished", "the block of capture has ended")


def capture(
    policy: Policy,
    *,
    scenario: Scenario | None = None,
    limits: Limits | None = None,
    train: Select | None = None,
) -> Capture:
    """Make the model calls of a block the turns of a trajectory: ``with capture(policy) as trajectory: ...``.

    Calls through ``.session`` are captured, and those of libraries that a hook is installed for: ``capture`` of
    ``art_integrations.langgraph`` and of ``art_integrations.openai_sdk`` install theirs. In async code the calls are answered on the
    running loop; in sync code on one beside it, so the block may call synchronously or run a loop of its own.

    When the block ends the trajectory is finished: its stop reason, its seconds, and, where the block raised, the error, which goes
    on to the caller. Its turns are kept, its reward is the caller's to give. A block is not stopped at ``limits.seconds``; its next
    call is refused. Inside of a rollout a block cannot be captured: its calls are turns already.

    Args:
        scenario: what the trajectory is about; an empty one unless given.
        limits: as of a rollout.
        train: which calls are trained, see ``Selection``; all unless given.

    Raises:
        InputError: ``train`` selects nothing.

    >>> from art_core import ScriptedPolicy
    >>> with capture(ScriptedPolicy(["Noon."])) as trajectory:
    ...     pass
    >>> trajectory.stop_reason
    'finished'
    """
    return Capture(policy, scenario or Scenario("captured", ""), limits, Selection(train))
