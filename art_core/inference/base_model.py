"""BaseModel: the weights of an engine without any adapter, asked outside of all rollouts: nothing of it is recorded or trained."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from art_core.errors import InputError
from art_core.messages import Message
from art_core.rendering.renderer import Renderer
from art_core.trajectory.graph import PolicyVersion

from .protocol import Engine, Interrupted, SamplingParams

__all__ = ["BaseModel", "Said"]

_BASE = PolicyVersion("(base)", 0)
"""No adapter can be called that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One reply."""

    text: str
    finished: bool
    """False if it was cut off by its length."""
    input_tokens: int
    output_tokens: int


class BaseModel:
    """Answers greedily, by the model's own chat template.

    Args:
        name: of the model, as the user calls it.
        engine: samples it; one that trains serves its adapters beside it.
        context: longest prompt plus reply, in tokens.
    """

    def __init__(self, name: str, engine: Engine, renderer: Renderer, *, context: int) -> None:
        self.name, self.context = name, context
        self._engine, self._renderer = engine, renderer

    async def open(self) -> BaseModel:
        """Have the engine serve the base weights; to be called once, before anything is asked."""
        await self._engine.load(_BASE, None)
        return self

    def prompt(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """The ids of a conversation. Where the chat template has no system message, that one leads the first message of the user.

        Raises:
            InputError: the template refuses it.
        """
        told = [Message.from_wire(message) for message in messages]
        try:
            return self._renderer.prompt(told, ())
        except InputError:
            if len(told) < 2 or told[0].role != "system":
                raise
            first = Message(role=told[1].role, content=f"{told[0].text}\n\n{told[1].text}")
            return self._renderer.prompt([first, *told[2:]], ())

    async def answer(self, prompt: Sequence[int], *, max_tokens: int) -> Said:
        """
        Raises:
            ProviderError: the engine failed, or prompt and reply exceed the context.
        """
        sampling = SamplingParams(temperature=0.0, max_tokens=max_tokens, stop_ids=self._renderer.stop_ids)
        try:
            drawn = await self._engine.sample(prompt, sampling, _BASE, rng_key=0)
        except Interrupted:
            raise asyncio.CancelledError from None
        kept = drawn.ids[:-1] if drawn.ids and drawn.ids[-1] in sampling.stop_ids else drawn.ids
        return Said(
            text=self._renderer.text(kept),
            finished=drawn.finish_reason == "stop",
            input_tokens=len(prompt),
            output_tokens=len(drawn.ids),
        )

    async def close(self) -> None:
        """Stop the engine."""
        await self._engine.close()
