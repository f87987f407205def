"""Calls of the ``openai`` SDK inside a rollout go to its policy; everywhere else nothing changes.

All of the SDK (sync, async, streams, parsed output, raw responses, Azure) sends through one method of its two base clients,
``request``. ``install`` wraps these once per process; ``uninstall`` puts them back. A call that is the policy's is made by the
session's own client instead of the program's, so that no key is asked for, no socket opened and nothing sent again.

Who answers a call::

    no rollout, no_capture()        the service, as ever
    a raw thread of a rollout       nobody: an error that says what to do
    a model that is not trained     the service; what it said is recorded as part of the environment
    any other chat completion       the policy, as a turn of the rollout
    any other request of a model    nobody: an error that says what to do
    embeddings, files, ...          the service, as ever
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from openai._base_client import AsyncAPIClient, SyncAPIClient
from openai._models import FinalRequestOptions

from art_core.errors import InputError
from art_core.rollout.current import session_of_call, watch
from art_core.rollout.patching import Patches
from art_core.rollout.session import Session
from art_core.rollout.transports import BASE_URL, call_header

from .caller import describe_caller
from .environment import Observed, body_of

__all__ = ["install", "installed", "uninstall"]

_CHAT = "/chat/completions"
_OTHERS = ("/responses", "/completions")
"""Requests that a model answers and a rollout does not serve."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A model call of a rollout, and the adapter that answers it; None if the service does."""

    session: Session
    about: Mapping[str, Any]
    adapter: str | None
    options: FinalRequestOptions

    def to_policy(self) -> FinalRequestOptions:
        given = self.options.headers if isinstance(self.options.headers, Mapping) else {}
        headers = {**given, **call_header(self.about, self.adapter)}
        return self.options.model_copy(update={"headers": headers, "max_retries": 0})


def _sync(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def request(client: Any, cast_to: Any, options: FinalRequestOptions, **how: Any) -> Any:
        call = _call_of(client, options)
        if call is None:
            return original(client, cast_to, options, **how)
        if call.adapter is not None:
            return original(call.session.openai_sync, cast_to, call.to_policy(), **how)
        observed = Observed(call.session, options, call.about)
        with observed:
            result = original(client, cast_to, options, **how)
        return observed.answered(result)

    return request


def _async(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def request(client: Any, cast_to: Any, options: FinalRequestOptions, **how: Any) -> Any:
        call = _call_of(client, options)
        if call is None:
            return await original(client, cast_to, options, **how)
        if call.adapter is not None:
            return await original(call.session.openai, cast_to, call.to_policy(), **how)
        observed = Observed(call.session, options, call.about)
        with observed:
            result = await original(client, cast_to, options, **how)
        return observed.answered(result)

    return request


def _call_of(client: Any, options: FinalRequestOptions) -> _Call | None:
    """The model call that a request of the SDK is; None if it is to be left alone.

    Raises:
        InputError: it is made in a raw thread of a rollout, or the policy is to answer what it cannot.
    """
    path = options.url.partition("?")[0]
    if options.method.lower() != "post" or not path.endswith((_CHAT, *_OTHERS)):
        return None
    if str(client.base_url).rstrip("/") == BASE_URL:  # a client of a session
        return None
    session = session_of_call(type(client).__name__)
    if session is None:
        return None
    about = describe_caller(client, body_of(options))
    adapter = session.adapter_for(about)
    if adapter is not None and not path.endswith(_CHAT):
        raise InputError(
            f"{type(client).__name__} was asked for {path}, and a rollout answers chat completions only; have the program use "
            'them (client.chat.completions; in the OpenAI Agents SDK set_default_openai_api("chat_completions") or '
            "OpenAIChatCompletionsModel), or call a model that is not trained under art.no_capture()"
        )
    return _Call(session, about, adapter, options)


_patches = Patches(((SyncAPIClient, "request", _sync), (AsyncAPIClient, "request", _async)), beside=(watch,))
install, installed, uninstall = _patches.install, _patches.installed, _patches.uninstall
