"""Chat models' calls inside a rollout go to its policy; everywhere else nothing changes.

All ways to call a LangChain chat model (``invoke``, ``batch``, bound tools, fallbacks, retries, streams, events) end in six
methods of ``BaseChatModel``. ``install`` wraps these once per process; ``uninstall`` puts them back.

Who answers a call::

    no rollout, no_capture()        the model itself
    a raw thread of a rollout       nobody: an error that says what to do
    a model that is not trained     the model itself; what it said is recorded as part of the environment
    any other                       the policy, as a turn of the rollout
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables.config import ensure_config

from art_core.rollout.current import no_capture, session_of_call, watch
from art_core.rollout.patching import Patches
from art_core.rollout.transports import call_header
from art_integrations.openai_sdk.caller import told_by

from .caller import describe_caller, describe_running_node
from .made_with import made_with
from .model import PolicyModel, model_for
from .recording import recorded
from .toolhook import uninstall_tools
from .translate import translate

__all__ = ["install", "installed", "uninstall"]

_PLUMBING = frozenset(("messages", "input", "config", "stop", "callbacks", "tags", "metadata", "run_name", "run_id"))
"""Arguments of the six methods that are not the model's."""


def _call(original: Callable[..., Any]) -> Callable[..., Any]:
    """For methods that return a result or a coroutine."""

    @functools.wraps(original)
    def wrapped(model: BaseChatModel, *args: Any, **kwargs: Any) -> Any:
        answer = _answerer(original, model, args, kwargs)
        with answer.alone():
            result = original(answer.model, *answer.args, **answer.kwargs)
        if not answer.itself:
            return result
        return _awaited_alone(result) if inspect.iscoroutine(result) else _read_alone(result)

    return wrapped


def _stream(original: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    @functools.wraps(original)
    def wrapped(model: BaseChatModel, *args: Any, **kwargs: Any) -> Iterator[Any]:
        answer = _answerer(original, model, args, kwargs)
        chunks = iter(original(answer.model, *answer.args, **answer.kwargs))
        while True:
            with answer.alone():
                try:
                    chunk = next(chunks)
                except StopIteration:
                    return
            yield chunk

    return wrapped


def _astream(original: Callable[..., AsyncIterator[Any]]) -> Callable[..., AsyncIterator[Any]]:
    @functools.wraps(original)
    async def wrapped(model: BaseChatModel, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        answer = _answerer(original, model, args, kwargs)
        chunks = aiter(original(answer.model, *answer.args, **answer.kwargs))
        while True:
            with answer.alone():
                try:
                    chunk = await anext(chunks)
                except StopAsyncIteration:
                    return
            yield chunk

    return wrapped


async def _awaited_alone(result: Coroutine[Any, Any, Any]) -> Any:
    with no_capture():
        return _read_alone(await result)


def _read_alone(result: Any) -> Any:
    """A v3 stream asks its model when it is read, not when it is made."""
    for callback, put in (("_ensure_started", "set_start"), ("_request_more", "set_request_more")):
        if (ask := getattr(result, callback, None)) is not None:
            getattr(result, put)(_alone(ask))
    return result


def _alone(ask: Callable[[], Any]) -> Callable[[], Any]:
    if not inspect.iscoroutinefunction(ask):
        return no_capture()(ask)

    async def awaited() -> Any:
        with no_capture():
            return await ask()

    return awaited


class _Answer(NamedTuple):
    """How a call is answered."""

    model: BaseChatModel
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    itself: bool = False
    """Whether it is a call of a rollout that the model answers itself."""

    def alone(self) -> contextlib.AbstractContextManager[None]:
        """While a model answers itself, the requests that it makes are no calls of the agent."""
        return no_capture() if self.itself else contextlib.nullcontext()


def _answerer(
    original: Callable[..., Any], model: BaseChatModel, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> _Answer:
    """
    Raises:
        InputError: the call comes from a raw thread of a rollout, or asks for what the policy cannot do.
        LimitReached: the agent runs with its own models and has used up the rollout's model calls or tokens.
    """
    if isinstance(model, PolicyModel):
        return _Answer(model, args, kwargs)
    session = session_of_call(type(model).__name__)
    if session is None:
        return _Answer(model, args, kwargs)
    about = describe_caller(model, _metadata(args, kwargs))
    adapter = session.adapter_for(about)
    if adapter is None:
        bound = _signature(original).bind(model, *args, **kwargs)
        by_config = "config" in _signature(original).parameters
        recorded(bound.arguments, by_config=by_config, session=session, model=model, about=about)
        return _Answer(model, bound.args[1:], bound.kwargs, itself=True)
    own = {name: value for name, value in kwargs.items() if name not in _PLUMBING}
    plumbing = {name: value for name, value in kwargs.items() if name in _PLUMBING}
    wanted = {**plumbing, **translate({**made_with(model), **own}), "extra_headers": call_header(about, adapter)}
    return _Answer(model_for(session, model), args, wanted)


@functools.cache
def _signature(method: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(method)


def _metadata(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the run that calls knows about itself: handed on by ``generate``, part of the config elsewhere."""
    if kwargs.get("metadata"):
        metadata: Mapping[str, Any] = kwargs["metadata"]
        return metadata
    config: Any = kwargs.get("config") or next(
        (arg for arg in args if isinstance(arg, dict) and "metadata" in arg), None
    )
    return ensure_config(config).get("metadata") or {}


_WRAPPED = {
    "generate": _call,
    "agenerate": _call,
    "_chat_model_stream_v3": _call,
    "_achat_model_stream_v3": _call,
    "stream": _stream,
    "astream": _astream,
}
"""Those that are there: the v3 streams are younger than the oldest supported core."""
_patches = Patches(
    ((BaseChatModel, name, wrap) for name, wrap in _WRAPPED.items() if hasattr(BaseChatModel, name)),
    beside=(watch, functools.partial(told_by, describe_running_node)),
)
install, installed = _patches.install, _patches.installed


def uninstall() -> None:
    """Put the methods back, those of tools too; without ``install`` it does nothing."""
    _patches.uninstall()
    uninstall_tools()
