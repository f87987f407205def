"""Who is asked: a provider's model, a service at a URL, the base model of the run, a chat model of LangChain, or any function of messages.

Every judge is asked outside of all capture: its calls are never turns of a rollout.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from art_core.errors import InputError, JudgeError, describe
from art_core.inference.hosted_client import HostedClient
from art_core.inference.providers import find_hosted_model
from art_core.rollout.current import no_capture

from .base_judge import BaseJudge, is_base
from .protocol import Answer, Judge, Messages

__all__ = ["find_judge"]


def find_judge(judge: Any) -> Judge:
    """The judge that is meant: by ``provider/model``, ``model@URL`` or ``base``, a ``Judge``, a function of messages that returns the text of
    the reply, or a chat model of LangChain. ``base/MODEL`` is the base model too, where a certain one is meant.

    Raises:
        InputError: nothing that can be asked, an unknown provider, or no key for it.
    """
    if isinstance(judge, str):
        return BaseJudge(judge.partition("/")[2] or None) if is_base(judge) else HostedJudge(judge)
    if hasattr(judge, "ask") and hasattr(judge, "name"):
        found: Judge = judge
        return found
    if hasattr(judge, "ainvoke"):
        return ChatModelJudge(judge)
    if callable(judge):
        return FunctionJudge(judge)
    raise InputError(
        f"judge {judge!r} cannot be asked; give provider/model, model@URL, base, a function of messages, or a chat model"
    )


class HostedJudge:
    """A model behind an API of OpenAI's form."""

    def __init__(self, model: str) -> None:
        self.name = model
        self._hosted = find_hosted_model(model)
        self._client = HostedClient(self._hosted)
        self._structured = True

    async def ask(self, messages: Messages, *, schema: Mapping[str, Any], max_tokens: int, seconds: float) -> Answer:
        """See ``Judge``. A service that refuses the schema is asked without one from then on."""
        from openai import BadRequestError

        body: dict[str, Any] = {
            "model": self._hosted.model,
            "messages": list(messages),
            self._hosted.length: max_tokens,
        }
        try:
            with no_capture():
                try:
                    answer = await self._create(body, schema if self._structured else None, seconds)
                except BadRequestError as error:
                    if not self._structured or not _about_format(error):
                        raise
                    self._structured = False
                    answer = await self._create(body, None, seconds)
        except Exception as error:
            raise JudgeError(f"{self.name}: {describe(error)}") from error
        return _answer(answer, self.name)

    async def close(self) -> None:
        """Close the connections of this event loop."""
        await self._client.close()

    async def _create(
        self, body: Mapping[str, Any], schema: Mapping[str, Any] | None, seconds: float
    ) -> dict[str, Any]:
        extra: dict[str, Any] = dict(body)
        if schema is not None:
            held = {"name": "reply", "strict": True, "schema": dict(schema)}
            extra["response_format"] = {"type": "json_schema", "json_schema": held}
        created = await self._client.here().chat.completions.create(
            model=extra.pop("model"), messages=extra.pop("messages"), extra_body=extra, timeout=seconds
        )
        found: dict[str, Any] = created.model_dump()
        return found


class FunctionJudge:
    """A function of messages, sync (run in a worker) or async, that returns the text of the reply."""

    def __init__(self, function: Callable[[list[dict[str, str]]], Awaitable[str] | str]) -> None:
        self.name = getattr(function, "__name__", None) or type(function).__name__
        self._function = function

    async def ask(self, messages: Messages, *, schema: Mapping[str, Any], max_tokens: int, seconds: float) -> Answer:
        """See ``Judge``."""
        given = [dict(message) for message in messages]
        async with _answering(self.name, seconds):
            said: Any = (
                self._function(given)
                if inspect.iscoroutinefunction(self._function)
                else await asyncio.to_thread(self._function, given)
            )
            said = await said if inspect.isawaitable(said) else said
        if not isinstance(said, str):
            raise JudgeError(f"{self.name} returned {said!r}, which is no text")
        return Answer(text=said)


class ChatModelJudge:
    """A chat model of LangChain."""

    def __init__(self, model: Any) -> None:
        self.name = str(getattr(model, "model_name", None) or getattr(model, "model", None) or type(model).__name__)
        self._model = model

    async def ask(self, messages: Messages, *, schema: Mapping[str, Any], max_tokens: int, seconds: float) -> Answer:
        """See ``Judge``."""
        given = [(message["role"], message["content"]) for message in messages]
        async with _answering(self.name, seconds):
            said = await self._model.ainvoke(given)
        usage = getattr(said, "usage_metadata", None) or {}
        metadata = getattr(said, "response_metadata", None) or {}
        return Answer(
            text=str(said.text),
            finished=metadata.get("finish_reason") != "length",
            input_tokens=usage.get("input_tokens"),
            output_tokens=usage.get("output_tokens"),
        )


@contextlib.asynccontextmanager
async def _answering(name: str, seconds: float) -> AsyncIterator[None]:
    """Outside of all capture and within ``seconds``; what escapes is the judge's failure."""
    try:
        async with asyncio.timeout(seconds):
            with no_capture():
                yield
    except TimeoutError as error:
        raise JudgeError(f"{name}: no answer within {seconds:g} s") from error
    except Exception as error:
        raise JudgeError(f"{name}: {describe(error)}") from error


def _answer(told: Mapping[str, Any], name: str) -> Answer:
    if not told.get("choices"):
        raise JudgeError(f"{name}: the answer has no choices")
    choice, usage = told["choices"][0], told.get("usage") or {}
    return Answer(
        text=choice["message"].get("content") or "",
        finished=choice.get("finish_reason") != "length",
        input_tokens=usage.get("prompt_tokens"),
        output_tokens=usage.get("completion_tokens"),
    )


def _about_format(error: Exception) -> bool:
    """Whether a service refuses ``response_format`` itself."""
    text = str(error).casefold()
    return any(word in text for word in ("response_format", "json_schema", "schema", "structured"))
