"""The base model of a run as the judge of its rollouts: local, without a key, sampled by the engine that is there anyway.

The loop lends the model before anything is scored. Prompt and reply share the model's context: a quarter of it, at most, is for the reply.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from art_core.errors import InputError, JudgeError, ProviderError

from .prompt import cut, estimate_tokens
from .protocol import Answer, Messages

if TYPE_CHECKING:
    from art_core.inference.base_model import BaseModel

__all__ = ["BASE", "BaseJudge", "is_base"]

BASE = "base"
_REPLY_SHARE = 4
_AGAIN_SHARE = 16  # of the context: for the words that ask again after a reply that cannot be used


def is_base(judge: str) -> bool:
    """Whether ``judge`` names the base model of a run: ``base``, or ``base/MODEL``."""
    return judge.partition("/")[0] == BASE and "@" not in judge


class BaseJudge:
    """See ``Judge``. ``seconds`` bounds nothing here: a reply is bounded by its tokens, and waits its turn in the engine.

    Args:
        wanted: the model it must be; None for that of whichever run it is used in.
    """

    def __init__(self, wanted: str | None = None) -> None:
        self.wanted = wanted
        self._base: BaseModel | None = None

    @property
    def name(self) -> str:
        """``base/`` and the model, as soon as that is known."""
        model = self.wanted if self._base is None else self._base.name
        return BASE if model is None else f"{BASE}/{model}"

    @property
    def lent(self) -> bool:
        """Whether there is a model to ask."""
        return self._base is not None

    def lend(self, base: BaseModel) -> None:
        """Ask this one from now on.

        Raises:
            InputError: it is another model than the one that was named.
        """
        if self.wanted not in (None, base.name):
            raise InputError(f"judge {BASE}/{self.wanted} cannot be {base.name!r}")
        self._base = base

    def excess(self, messages: Messages, max_tokens: int) -> float:
        """How many times the room that there is the messages take; up to 1 they fit.

        Raises:
            InputError: no model was lent.
        """
        base = self._there()
        room = self._room(base, max_tokens) - base.context // _AGAIN_SHARE
        return len(base.prompt(messages)) / max(1, room)

    async def ask(self, messages: Messages, *, schema: Mapping[str, Any], max_tokens: int, seconds: float) -> Answer:
        """See ``Judge``. Of a conversation that became too long the judge's own last reply is cut."""
        base = self._there()
        room = self._room(base, max_tokens)
        try:
            said = await base.answer(_fitted(base, messages, room), max_tokens=base.context - room)
        except (InputError, ProviderError) as error:
            raise JudgeError(f"{self.name}: {error}") from error
        return Answer(
            text=said.text, finished=said.finished, input_tokens=said.input_tokens, output_tokens=said.output_tokens
        )

    def _there(self) -> BaseModel:
        if self._base is None:
            raise InputError(
                f"judge {self.name!r} is the base model of a run, which only the run's engine can ask, and there is none here; give "
                "provider/model, model@URL or a function of messages"
            )
        return self._base

    def _room(self, base: BaseModel, max_tokens: int) -> int:
        """What is left for a prompt."""
        return base.context - min(max_tokens, base.context // _REPLY_SHARE)


def _fitted(base: BaseModel, messages: Messages, room: int) -> list[int]:
    """The ids of a conversation, without the middle of the judge's own reply in it where they were more than ``room``.

    Raises:
        JudgeError: that is not enough.
    """
    said = [dict(message) for message in messages]
    own = [message for message in said if message["role"] == "assistant"]
    while len(ids := base.prompt(said)) > room:
        if not own or estimate_tokens(own[-1]["content"]) < 2:
            raise JudgeError(
                f"a prompt of {len(ids)} tokens leaves no room for a reply in the context of {base.name}, {base.context}"
            )
        own[-1]["content"] = _shorter(own[-1]["content"])
    return ids


def _shorter(text: str) -> str:
    """About half of a text; nothing of one that is short already."""
    half = cut(text, estimate_tokens(text) // 2)
    return half if len(half) < len(text) else ""
