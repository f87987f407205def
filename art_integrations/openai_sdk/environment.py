"""What models that are not trained were asked and said, kept with the rollout; the program gets what it would get anyway."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from types import TracebackType
from typing import Any

from openai import AsyncStream, Stream
from openai._models import FinalRequestOptions
from openai.lib.streaming.chat import ChatCompletionStreamState

from art_core.errors import InputError, describe
from art_core.messages import Message, ToolSpec
from art_core.rollout.session import Session
from art_core.trajectory.trajectory import ModelCall

from . import responses

__all__ = ["Observed", "body_of"]

_LEFT = "the program left the stream before its end"


def body_of(options: FinalRequestOptions) -> dict[str, Any]:
    """The JSON object that a request sends."""
    given = options.json_data if isinstance(options.json_data, Mapping) else {}
    return {**given, **(options.extra_json or {})}


class Observed:
    """One call, from the request to the end of its answer. As a context it records the failure of the request."""

    def __init__(self, session: Session, options: FinalRequestOptions, about: Mapping[str, Any]) -> None:
        self._session = session
        self._body = body_of(options)
        self._about = dict(about)
        self._started = session.elapsed()
        self._recorded: ModelCall | None = None

    def __enter__(self) -> Observed:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None and not isinstance(error, GeneratorExit):
            self._record(None, error=describe(error))

    def answered(self, result: Any) -> Any:
        """What the program gets for ``result``: the same; a stream counts as left until it ends."""
        if isinstance(result, Stream):
            self._record(None, error=_LEFT)
            result._iterator = self._watched(result._iterator)
        elif isinstance(result, AsyncStream):
            self._record(None, error=_LEFT)
            result._iterator = self._awatched(result._iterator)
        elif hasattr(result, "http_response"):
            self._record(*_reply(_json_of(result.http_response)))
        else:
            self._record(*_reply(result.model_dump()))
        return result

    def _watched(self, items: Iterator[Any]) -> Iterator[Any]:
        heard = _Heard()
        with self:
            for item in items:
                heard.add(item)
                yield item
        self._record(*_reply(heard.said()))

    async def _awatched(self, items: AsyncIterator[Any]) -> AsyncIterator[Any]:
        heard = _Heard()
        with self:
            async for item in items:
                heard.add(item)
                yield item
        self._record(*_reply(heard.said()))

    def _record(
        self, reply: Message | None, usage: Mapping[str, Any] | None = None, *, error: str | None = None
    ) -> None:
        messages, tools = self._asked()
        usage = usage or {}
        about = dict(self._about)
        if reply is None and error is None:
            about["unreadable_reply"] = "the program reads the answer itself, or it has no message"
        call = ModelCall(
            messages=messages,
            reply=reply,
            tools=tools,
            error=error,
            input_tokens=usage.get("prompt_tokens", usage.get("input_tokens")),
            output_tokens=usage.get("completion_tokens", usage.get("output_tokens")),
            started_s=self._started,
            ended_s=self._session.elapsed(),
            metadata=about,
        )
        if self._recorded is None:
            self._session.record_model_call(call)
        elif not self._session.finished:
            recorded = self._session.trajectory.model_calls
            recorded[next(n for n, earlier in enumerate(recorded) if earlier is self._recorded)] = call
        self._recorded = call

    def _asked(self) -> tuple[tuple[Message, ...], tuple[ToolSpec, ...]]:
        """The messages and function tools of the request."""
        body = self._body if "messages" in self._body else responses.as_chat(self._body)
        try:
            messages = tuple(Message.from_wire(_plain(message)) for message in body.get("messages") or ())
        except InputError as error:
            self._about["unreadable_request"] = str(error)
            messages = ()
        tools = [tool for tool in body.get("tools") or () if isinstance(tool.get("function"), Mapping)]
        return messages, tuple(map(ToolSpec.from_wire, tools))


class _Heard:
    """What a stream said so far."""

    def __init__(self) -> None:
        self._chat: ChatCompletionStreamState[Any] | None = None
        self._response: Any = None

    def add(self, item: Any) -> None:
        if hasattr(item, "choices"):
            self._chat = self._chat or ChatCompletionStreamState()
            self._chat.handle_chunk(item)
        else:
            self._response = getattr(item, "response", None) or self._response

    def said(self) -> dict[str, Any]:
        found = self._response if self._chat is None else self._chat.current_completion_snapshot
        return {} if found is None else dict(found.model_dump())


def _reply(answer: Mapping[str, Any]) -> tuple[Message | None, Mapping[str, Any] | None]:
    """The message of an answer and its usage."""
    choices = answer.get("choices")
    wire = choices[0]["message"] if choices else responses.reply_of(answer)
    try:
        return (None if wire is None else Message.reply_from_wire(wire)), answer.get("usage")
    except InputError:  # content of a kind that is not known; it is kept as it reads
        return Message(role="assistant", content=str(wire)), answer.get("usage")


def _json_of(http_response: Any) -> Mapping[str, Any]:
    """The JSON of a response that was read already; nothing of one that the program reads itself."""
    if not http_response.is_closed or "json" not in http_response.headers.get("content-type", ""):
        return {}
    found: Mapping[str, Any] = http_response.json()
    return found


def _plain(message: Any) -> Any:
    return message.model_dump(exclude_none=True) if hasattr(message, "model_dump") else message
