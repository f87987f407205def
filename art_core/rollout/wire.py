"""The OpenAI chat-completions wire, free of transport: a request dict in, a response dict or stream events out.

Whatever carries the bytes (the in-process clients, the HTTP server), the answer is made here. A stream is the finished
turn told in chunks, so it says exactly what the plain answer says.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from openai.types.chat import ChatCompletion

from art_core.errors import ArtError, InputError, LimitReached, ProviderError, describe
from art_core.messages import Message, ToolSpec
from art_core.trajectory.graph import Turn

from .session import Session

__all__ = [
    "Request",
    "Response",
    "chat_completion",
    "chunks",
    "complete",
    "decode",
    "error_response",
    "handle",
    "request",
]

_NOT_SAMPLING = frozenset(
    (
        *("model", "stream", "stream_options", "n", "logprobs", "top_logprobs", "user", "metadata", "store"),
        *("service_tier", "safety_identifier", "prompt_cache_key", "return_token_ids", "return_tokens_as_token_ids"),
    )
)
"""Request fields that say nothing about what is to be sampled; every other one goes to the policy."""
_LOWEST_LOGPROB = -9999.0
"""What the wire says for a logprob that is not a finite number, which JSON cannot hold."""
_PIECE = re.compile(r"\s*\S+\s*|\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A chat-completions request, checked."""

    messages: list[Message]
    tools: tuple[ToolSpec, ...] = ()
    params: dict[str, Any] = field(default_factory=dict)
    """The agent's wishes, ``tool_choice`` among them, for the policy."""
    model: str = "policy"
    stream: bool = False
    include_usage: bool = False
    logprobs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What to send back: one JSON body, or a stream of chunks."""

    status: int = 200
    body: dict[str, Any] | None = None
    stream: tuple[dict[str, Any], ...] = ()

    @property
    def content_type(self) -> str:
        return "application/json" if self.body is not None else "text/event-stream"

    def events(self) -> Iterator[bytes]:
        """The pieces of the response in order; those of a stream are server-sent events, ``[DONE]`` the last."""
        if self.body is not None:
            yield _json(self.body)
            return
        for chunk in self.stream:
            yield b"data: " + _json(chunk) + b"\n\n"
        yield b"data: [DONE]\n\n"


async def handle(
    session: Session,
    payload: bytes | str | Mapping[str, Any],
    *,
    about: Mapping[str, Any] | None = None,
    logprobs: bool = True,
) -> Response:
    """Answer one chat-completions request. Every failure but a cancellation is an OpenAI-style error response.

    ``about`` is kept as the turn's ``metadata["call"]``: who calls, as far as that is known. ``logprobs`` False leaves them out of the
    answer unless the request asks for them.
    """
    try:
        checked = request(decode(payload))
        completion = await complete(session, checked, about=about, logprobs=logprobs or checked.logprobs)
    except ArtError as error:
        return error_response(error)
    except Exception as error:  # noqa: BLE001 - the client must get an answer, whatever failed
        return error_response(ProviderError(describe(error)))
    if checked.stream:
        return Response(stream=tuple(chunks(completion, include_usage=checked.include_usage)))
    return Response(body=completion)


def error_response(error: ArtError) -> Response:
    """The OpenAI-style body and status of a failure: 400 for bad input and for a reached limit, 500 otherwise.

    ``type`` is ``invalid_request_error``, ``rollout_limit`` (``code`` is the stop reason) or ``provider_error``.
    """
    status, kind, code = 500, "provider_error", None
    if isinstance(error, LimitReached):
        status, kind, code = 400, "rollout_limit", error.stop_reason
    elif isinstance(error, InputError):
        status, kind = 400, "invalid_request_error"
    return Response(
        status=status, body={"error": {"message": describe(error), "type": kind, "param": None, "code": code}}
    )


def request(fields: Mapping[str, Any], *, streaming: bool = True) -> Request:
    """Check and convert the fields of a chat-completions request; a field that is None counts as not given.

    Raises:
        InputError: a field that cannot be used; the message names it.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    raw = given.pop("messages", None)
    if isinstance(raw, str | bytes | Mapping) or not isinstance(raw, Sequence) or not raw:
        raise InputError(f"messages must be a list of at least one message, got {raw!r}")
    messages = [_read(Message, item, f"messages[{i}]") for i, item in enumerate(raw)]
    raw_tools = given.pop("tools", ())
    if isinstance(raw_tools, str | bytes | Mapping) or not isinstance(raw_tools, Sequence):
        raise InputError(f"tools must be a list of tools, got {raw_tools!r}")
    tools = tuple(_read(ToolSpec, item, f"tools[{i}]") for i, item in enumerate(raw_tools))
    if given.get("n", 1) != 1:
        raise InputError(f"n = {given['n']!r} is not served: a rollout takes one answer per call, so n must be 1")
    stream = bool(given.get("stream", False))
    if stream and not streaming:
        raise InputError("session.chat does not stream; use session.openai, or leave stream out")
    return Request(
        messages=messages,
        tools=tools,
        params=_params(given, tools),
        model=str(given.get("model", "policy")),
        stream=stream,
        include_usage=bool((given.get("stream_options") or {}).get("include_usage", False)),
        logprobs=bool(given.get("logprobs", False)),
    )


def _params(given: Mapping[str, Any], tools: tuple[ToolSpec, ...]) -> dict[str, Any]:
    params = {name: value for name, value in given.items() if name not in _NOT_SAMPLING}
    if "stop" in params:
        stop = params["stop"] if isinstance(params["stop"], list | tuple) else [params["stop"]]
        if not all(isinstance(text, str) and text for text in stop):
            raise InputError(f"stop must be a text or a list of texts, got {params['stop']!r}")
        params["stop"] = tuple(stop)
    choice = params.get("tool_choice")
    if isinstance(choice, Mapping):
        name = (choice.get("function") or {}).get("name")
        if name not in {tool.name for tool in tools}:
            raise InputError(f"tool_choice names {name!r}, which is not one of the tools offered")
    elif choice not in (None, "auto", "none", "required"):
        raise InputError(f"tool_choice {choice!r} is not auto, none, required or a named function")
    elif choice == "required" and not tools:
        raise InputError("tool_choice is 'required' but no tools are offered")
    return params


async def complete(
    session: Session, checked: Request, *, about: Mapping[str, Any] | None = None, logprobs: bool = True
) -> dict[str, Any]:
    """Have the session answer a checked request; the turn in chat-completion form.

    Raises:
        LimitReached, InputError, ProviderError: as ``Session.turn``.
    """
    turn = await session.turn(checked.messages, checked.tools, about=about, **checked.params)
    graph = session.recorder.graph
    prompt = graph.path(turn.id)[: graph.path_len(turn.id) - len(turn.completion_ids)]
    return _completion(turn, prompt, model=checked.model, rollout_id=session.rollout_id, logprobs=logprobs)


def chat_completion(completion: Mapping[str, Any]) -> ChatCompletion:
    """The SDK's object for a completion made by ``complete``; the fields OpenAI does not know are kept."""
    return ChatCompletion.model_validate(completion)


def _completion(turn: Turn, prompt: list[int], *, model: str, rollout_id: str, logprobs: bool) -> dict[str, Any]:
    choice: dict[str, Any] = {
        "index": 0,
        "finish_reason": _finish_reason(turn),
        "message": _message(turn),
        "logprobs": _logprobs(turn) if logprobs else None,
        "prompt_token_ids": prompt,
        "token_ids": list(turn.completion_ids),
        "version": str(turn.versions[0].version) if turn.versions else None,
        "turn_id": turn.id,
    }
    if turn.reply.malformed_calls:
        choice["malformed_calls"] = [{"raw": call.raw, "error": call.error} for call in turn.reply.malformed_calls]
    told = turn.metadata.get("usage") or {"input_tokens": len(prompt), "output_tokens": len(turn.completion_ids)}
    asked, answered = told["input_tokens"] or 0, told["output_tokens"] or 0
    return {
        "id": f"chatcmpl-{rollout_id}-{turn.id}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [choice],
        "usage": {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered},
        "prompt_token_ids": prompt,
    }


def _finish_reason(turn: Turn) -> str:
    if turn.finish_reason != "stop":  # an aborted turn was cut as well
        return "length"
    return "tool_calls" if turn.reply.tool_calls else "stop"


def _message(turn: Turn) -> dict[str, Any]:
    reply = turn.reply
    message: dict[str, Any] = {
        "role": "assistant",
        "content": None if reply.content is None else reply.text,
        "refusal": None,
        "id": turn.id,
    }
    if reply.tool_calls:
        message["tool_calls"] = [call.to_wire() for call in reply.tool_calls]
    if reply.reasoning is not None:
        message["reasoning_content"] = reply.reasoning
    return message


def _logprobs(turn: Turn) -> dict[str, Any] | None:
    if turn.logprobs is None:
        return None
    content: list[dict[str, Any]] = [
        {
            "token": f"token_id:{token}",
            "bytes": None,
            "logprob": value if math.isfinite(value) else _LOWEST_LOGPROB,
            "top_logprobs": [],
        }
        for token, value in zip(turn.completion_ids, turn.logprobs, strict=True)
    ]
    return {"content": content, "refusal": None}


def chunks(completion: Mapping[str, Any], *, include_usage: bool = False) -> Iterator[dict[str, Any]]:
    """A finished completion as stream chunks.

    The first chunk carries the role, the message id and everything about token ids and logprobs; then come the
    reasoning, the content word by word, each tool call, the finish reason and, where asked for, the usage.
    """
    choice = completion["choices"][0]
    message = choice["message"]
    base = {name: completion[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    if include_usage:
        base["usage"] = None

    def chunk(delta: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None, "logprobs": None, **more}]}

    about = {name: value for name, value in choice.items() if name not in ("index", "finish_reason", "message")}
    opening = chunk({"role": "assistant", "content": "", "id": message["id"]}, **about)
    yield {**opening, "prompt_token_ids": completion["prompt_token_ids"]}
    if message.get("reasoning_content") is not None:
        yield chunk({"reasoning_content": message["reasoning_content"]})
    for piece in _PIECE.findall(message["content"] or ""):
        yield chunk({"content": piece})
    for index, call in enumerate(message.get("tool_calls", ())):
        yield chunk({"tool_calls": [{"index": index, **call}]})
    yield chunk({}, finish_reason=choice["finish_reason"])
    if include_usage:
        yield {**base, "choices": [], "usage": completion["usage"]}


def _read(kind: type[Any], item: Any, where: str) -> Any:
    if isinstance(item, kind):
        return item
    if hasattr(item, "model_dump"):
        item = item.model_dump(exclude_none=True)
    if not isinstance(item, Mapping):
        raise InputError(f"{where} must be an object, got {item!r}")
    try:
        return kind.from_wire(item)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def decode(payload: bytes | str | Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of a request's body.

    Raises:
        InputError: it is not a JSON object.
    """
    if isinstance(payload, Mapping):
        return payload
    try:
        value = json.loads(payload)
    except ValueError as error:
        raise InputError(f"the request body is not JSON: {payload[:80]!r}") from error
    if not isinstance(value, dict):
        raise InputError(f"the request body must be a JSON object, got {value!r}")
    return value


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
