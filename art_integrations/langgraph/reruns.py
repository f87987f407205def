"""Which turns of a rollout were sampled for nothing, because what made them was run again from its beginning."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langgraph.errors import GraphBubbleUp

from art_core.trajectory.graph import TokenGraph, Turn
from art_core.trajectory.superseded import same_request, superseded_by

__all__ = ["RunLog", "final_ids", "superseded_turns"]


@dataclass(slots=True)
class _Run:
    """A node, chain or tool that runs once, as LangChain's callbacks tell."""

    order: int
    parent: UUID | None
    namespace: str | None
    node: bool
    """It is a node's own run, not one of the chains and tools in it."""
    retry: bool
    error: BaseException | None = None


class RunLog(BaseCallbackHandler):
    """What ran inside what, and how it ended; a callback handler, for one rollout."""

    run_inline = True

    def __init__(self) -> None:
        self._runs: dict[UUID, _Run] = {}
        self._order = itertools.count()

    def on_chain_start(self, serialized: Any, inputs: Any, **about: Any) -> None:
        """A node or chain begins."""
        self._begin(**about)

    def on_tool_start(self, serialized: Any, input_str: str, **about: Any) -> None:
        """A tool begins."""
        self._begin(**about)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **about: Any) -> None:
        """A node or chain was left by an exception, an interrupt among them."""
        if run := self._runs.get(run_id):
            run.error = error

    def _begin(
        self,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        **about: Any,
    ) -> None:
        namespace = (metadata or {}).get("langgraph_checkpoint_ns")
        outer = None if parent_run_id is None else self._runs.get(parent_run_id)
        node = namespace is not None and (outer is None or outer.namespace != namespace)
        retry = any(tag.startswith("retry:attempt:") for tag in tags or ())
        self._runs[run_id] = _Run(next(self._order), parent_run_id, namespace, node, retry)

    def around(self, run_id: str | None) -> list[_Run]:
        """The runs that the run ``run_id`` is inside of, itself first."""
        found: list[_Run] = []
        run = self._runs.get(UUID(run_id)) if run_id else None
        while run is not None:
            found.append(run)
            run = None if run.parent is None else self._runs.get(run.parent)
        return found


def superseded_turns(graph: TokenGraph, log: RunLog, final: set[str]) -> set[str]:
    """The ids of the turns that were sampled again.

    A turn is superseded if all of this holds:

    - It was called in a run (a node's, or a chain's under ``with_retry``) that was left by an exception, and that run was begun
      again: the same namespace, which holds the task id, or another attempt of the same ``with_retry``. An interrupt leaves a node
      by an exception too, and its resume begins it again.
    - In the run that was begun again, a call was made at the same place: by the node of the same name, in the same nested graphs.
      After an interrupt, nested graphs and tasks that had ended are not run again but remembered; so there the very same task
      must have been called, or the request must be the same.
    - It is neither in the final state (``final``, ids of messages) nor extended by a turn that is not superseded.

    So that a reply is missing from the final state is never enough: nodes that keep only a parsed value, sub-agents and judges leave
    none there. Nor is the same request twice: a node that samples three answers and votes is not left by an exception.
    """
    runs = {turn.id: log.around(_call(turn).get("run")) for turn in graph}
    return superseded_by(graph, lambda turn, other: _repeats(graph, turn, other, runs), kept=final)


def final_ids(state: Any) -> set[str]:
    """The ids of the messages in a final state, however deep they lie in lists and mappings."""
    return {str(message.id) for message in _messages(state) if message.id}


def _messages(value: Any) -> Iterator[BaseMessage]:
    if isinstance(value, BaseMessage):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _messages(item)
    elif isinstance(value, list | tuple | set):
        for item in value:
            yield from _messages(item)
    elif isinstance(
        fields := getattr(value, "__dict__", None), dict
    ):  # a state that is a dataclass or a pydantic model
        for item in fields.values():
            if isinstance(item, BaseMessage | list | tuple | dict):
                yield from _messages(item)


def _repeats(graph: TokenGraph, turn: Turn, other: Turn, runs: Mapping[str, list[_Run]]) -> bool:
    """Whether ``other`` was made where ``turn`` was, after what made ``turn`` was begun again."""
    one, two = _call(turn).get("namespace"), _call(other).get("namespace")
    if _names(one) != _names(two):
        return False
    left = next((run for run in runs[turn.id] if any(_again(run, later) for later in runs[other.id])), None)
    if left is None:
        return False
    return not isinstance(left.error, GraphBubbleUp) or one == two or same_request(graph, turn, other)


def _again(run: _Run, later: _Run) -> bool:
    if run.error is None or later.order <= run.order:
        return False
    if later.retry and later.parent == run.parent:
        return True
    return run.node and later.node and later.namespace == run.namespace


def _names(namespace: Any) -> list[str]:
    """The nodes of a namespace, without their ids and without the numbers of nested graphs."""
    return [part.split(":")[0] for part in str(namespace or "").split("|") if ":" in part]


def _call(turn: Turn) -> Mapping[str, Any]:
    call: Mapping[str, Any] = turn.metadata.get("call", {})
    return call
