"""Calls of a rollout that the model itself answers, kept as ``ModelCall``s: LangChain's own callbacks tell what was asked and said,
whichever way the model was called."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, convert_to_openai_messages
from langchain_core.outputs import LLMResult
from langchain_core.runnables.config import ensure_config
from langchain_core.utils.function_calling import convert_to_openai_tool

from art_core.errors import InputError, describe
from art_core.messages import MalformedCall, Message, ToolSpec
from art_core.rollout.session import Session
from art_core.trajectory.trajectory import ModelCall

__all__ = ["CallRecorder", "recorded"]


class CallRecorder(BaseCallbackHandler):
    """Records one call of a model, or, where it answers several prompts at once, one for each.

    A stream that is not read to its end is recorded with what was read and an error that says so.
    """

    run_inline = True

    def __init__(self, session: Session, model: BaseChatModel, tools: Any, about: Mapping[str, Any]) -> None:
        self.model = model
        self._session = session
        self._tools, left_out = _tool_specs(tools)
        self._about = {**about, **({"provider_tools": left_out} if left_out else {})}
        self._begun: dict[UUID, tuple[tuple[Message, ...], float]] = {}

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        if parent_run_id not in self._begun:  # what a model asks another one is that one's call
            self._begun[run_id] = (_read_all(messages[0]), self._session.elapsed())

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        self._end(run_id, response, None)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        cut = isinstance(error, GeneratorExit)
        self._end(run_id, kwargs.get("response"), "the stream was not read to its end" if cut else describe(error))

    def _end(self, run_id: UUID, response: LLMResult | None, error: str | None) -> None:
        if run_id not in self._begun:
            return
        messages, started = self._begun.pop(run_id)
        said = _said(response)
        asked, answered = _usage(said, response)
        reply = None if said is None or (error and not (said.content or said.tool_calls)) else _read(said)
        self._session.record_model_call(
            ModelCall(
                messages=messages,
                reply=reply,
                tools=self._tools,
                error=error,
                input_tokens=asked,
                output_tokens=answered,
                started_s=started,
                ended_s=self._session.elapsed(),
                metadata=self._about,
            )
        )


def recorded(
    arguments: dict[str, Any], *, by_config: bool, session: Session, model: BaseChatModel, about: Mapping[str, Any]
) -> None:
    """Have the call with these (bound) ``arguments`` recorded; one that is part of a recorded call of the same model is already."""
    config: Any = ensure_config(arguments.get("config")) if by_config else arguments
    callbacks = config.get("callbacks")
    known = callbacks.handlers if isinstance(callbacks, BaseCallbackManager) else callbacks or ()
    if any(isinstance(handler, CallRecorder) and handler.model is model for handler in known):
        return
    recorder = CallRecorder(session, model, (arguments.get("kwargs") or {}).get("tools"), about)
    if isinstance(callbacks, BaseCallbackManager):
        callbacks = callbacks.copy()
        callbacks.add_handler(recorder)
    else:
        callbacks = [*(callbacks or ()), recorder]
    config["callbacks"] = callbacks
    if by_config:
        arguments["config"] = config


def _tool_specs(tools: Any) -> tuple[tuple[ToolSpec, ...], list[str]]:
    """The tools that a call offers, and those that only the provider can run, as they were written."""
    found: list[ToolSpec] = []
    left_out: list[str] = []
    for tool in tools if isinstance(tools, Sequence) and not isinstance(tools, str) else ():
        try:
            found.append(ToolSpec.from_wire(convert_to_openai_tool(tool)))
        except (InputError, ValueError, TypeError):
            left_out.append(str(tool))
    return tuple(found), left_out


def _said(response: LLMResult | None) -> Any:
    """The message of the first answer."""
    first = next((generations[0] for generations in response.generations if generations), None) if response else None
    return getattr(first, "message", None)


def _usage(said: Any, response: LLMResult | None) -> tuple[int | None, int | None]:
    """Tokens asked and answered, as the provider counts them."""
    if usage := getattr(said, "usage_metadata", None):
        return usage.get("input_tokens"), usage.get("output_tokens")
    told = ((response.llm_output or {}) if response else {}).get("token_usage") or {}
    return told.get("prompt_tokens"), told.get("completion_tokens")


def _read_all(messages: Sequence[BaseMessage]) -> tuple[Message, ...]:
    return tuple(_read(message) for message in messages)


def _read(message: BaseMessage) -> Message:
    """A message in our form; one that has no such form is kept as its text."""
    try:
        wire: Any = convert_to_openai_messages(message)
        if wire.get("tool_calls"):
            wire["content"] = wire.get("content") or None
        ours = Message.from_wire(wire)
    except (InputError, ValueError, TypeError, KeyError):
        role: Any = {"ai": "assistant", "system": "system"}.get(message.type, "user")
        return Message(role=role, content=str(message.content))
    wrong = tuple(
        MalformedCall.taken_apart(call.get("name"), call.get("args"), call.get("error") or "not a JSON object")
        for call in getattr(message, "invalid_tool_calls", ())
    )
    return dataclasses.replace(ours, malformed_calls=wrong) if wrong else ours
