"""Messages to token ids and back, through the model's own chat template.

Invariant: a prompt that continues a conversation is the ids already seen plus a bridge; what was sampled is never
rendered again. Control-token texts inside messages (an end-of-turn text in a tool result, say) become ordinary text:
no message can end a turn or open one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from art_core.errors import InputError
from art_core.messages import Message, ToolCall, ToolSpec
from art_core.trajectory.graph import FinishReason

from .bridge import MARK, find_bridge
from .parsing import FORMATS, parse_text
from .replies import find_reply
from .shield import Shield
from .templates import ChatTemplate, template_messages, with_tools
from .tokenizer import ChatTokenizer

__all__ = ["Renderer"]

_PROBE_TOOL = ToolSpec(
    name="q7x_probe",
    description="Probe.",
    parameters={"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
)
_ASK = Message(role="user", content="u")
_CALL = Message(role="assistant", tool_calls=(ToolCall(id="q7xprobe0", name="q7x_probe", arguments='{"a": "b"}'),))
_RESULT = Message(role="tool", tool_call_id="q7xprobe0", content="r")


class Renderer:
    """One model's chat format. Immutable after construction and safe to share between threads.

    ``native_tools`` says whether the model's own template has a tool section whose calls can be read back; if not,
    ``chat_template`` is that template with the fallback tool section in front. ``tool_format`` is how calls are written,
    a key of ``parsing.FORMATS``.

    Raises:
        InputError: the chat template cannot render a single user message.
    """

    def __init__(self, tokenizer: ChatTokenizer) -> None:
        self.tokenizer = tokenizer
        self._shield = Shield(tokenizer.special_texts)
        self._template = ChatTemplate(tokenizer.chat_template, tokenizer.special_tokens)
        self._map_developer = "developer" not in tokenizer.chat_template
        self._set_stops()
        form = self._native_format()
        self.native_tools = form is not None
        if form is None:
            source = with_tools(tokenizer.chat_template, tokenizer.special_tokens)
            self._template = ChatTemplate(source, tokenizer.special_tokens)
            self._map_developer = False
        self.tool_format = form or "hermes"
        self.chat_template = self._template.source

    def prompt(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[int]:
        """The ids of a conversation rendered from scratch, generation prompt included.

        Raises:
            InputError: the template refuses the conversation.
        """
        return self._encode(self._render(messages, tools, True))

    def extend(
        self,
        path: Sequence[int],
        history: Sequence[Message],
        new: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        finish_reason: FinishReason,
    ) -> list[int] | None:
        """The context ids to append to ``path`` so that the model answers ``new``.

        ``path`` holds the ids seen so far and ends with the sampled reply, the last message of ``history``. A reply
        that was cut gets the template's end of turn first. None: this template cannot be continued here.
        """
        bridge = find_bridge(lambda m, generate: self._render(m, tools, generate), history, new, self._stops)
        if bridge is None:
            return None
        ids = self._encode(bridge.text)
        ended = finish_reason == "stop" and bool(path) and path[-1] in self.stop_ids
        if not ended:
            return ids
        if not bridge.stop or not (self._own_end or path[-1] == ids[0]):
            return None
        return ids[1:]

    def completion(
        self,
        history: Sequence[Message],
        reply: Message,
        tools: Sequence[ToolSpec],
        *,
        following: Message | None = None,
    ) -> list[int] | None:
        """The ids that a model prompted with ``history`` has to sample to say ``reply``, stop token included.

        ``following`` is the message that came next, where it is known. Reasoning that the template leaves out is written
        as ``parse`` reads it. None: the template does not show where a reply begins or how a turn ends.

        Raises:
            InputError: the template refuses the conversation.
        """
        after = following or (_result_of(reply.tool_calls[0]) if reply.tool_calls else _ASK)
        text = find_reply(
            lambda m, generate: self._render(m, tools, generate),
            history,
            reply,
            after,
            special=self._shield.special,
            stops=self._stops,
        )
        if text is None:
            return None
        thought = self._shield.hide((reply.reasoning or "").strip())
        thinking, closed, _ = text.partition("</think>")
        if thought and not (closed and thought in thinking):
            text = thought + text if self._opened else f"<think>\n{thought}\n</think>\n\n{text}"
        ids = self._encode(text)
        if not self._stops.search(text):
            ids += self.tokenizer.encode(self.tokenizer.special_tokens.get("eos_token", ""))
        return ids if ids and ids[-1] in self.stop_ids else None

    def parse(
        self, ids: Sequence[int], tools: Sequence[ToolSpec], *, call_id_prefix: str, stop: Sequence[str] = ()
    ) -> Message:
        """The assistant message in sampled ids. Never raises; what follows a ``stop`` text is left out."""
        kept = ids[:-1] if ids and ids[-1] in self.stop_ids else ids
        text = self.text(kept)
        text = text[: min((found for mark in stop if (found := text.find(mark)) >= 0), default=len(text))]
        return parse_text(text, tools, call_id_prefix=call_id_prefix, form=self.tool_format, opened=self._opened)

    def text(self, ids: Sequence[int]) -> str:
        """The text of ids, control tokens kept."""
        return self.tokenizer.decode(ids)

    def _render(self, messages: Sequence[Message], tools: Sequence[ToolSpec], generate: bool) -> str:
        wires: Any = self._shield.hide(template_messages(messages))
        if self._map_developer:
            wires = [{**w, "role": "system"} if w["role"] == "developer" else w for w in wires]
        offered: Any = self._shield.hide([tool.to_wire() for tool in tools])
        return self._template.render(wires, offered, add_generation_prompt=generate)

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for piece in self._shield.pieces(text):
            ids.extend(self.tokenizer.encode(piece))
        return ids

    def _try(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = (), generate: bool = False) -> str:
        try:
            return self._render(messages, tools, generate)
        except InputError:
            return ""

    def _set_stops(self) -> None:
        """Find what ends a turn: the control token the template writes after a reply, or else before the next message."""
        prompt = self._render([_ASK], (), True)
        bare = self._try([_ASK])
        opening = prompt[len(bare) :] if prompt.startswith(bare) else ""
        self._opened = prompt.rstrip().endswith("<think>")
        reply = Message(role="assistant", content=MARK)
        end = self._special_after(self._try([_ASK, reply]))
        self._own_end = end is not None
        found = [end] if end else [self._special_after(self._try([_ASK, reply, new])) for new in (_ASK, _RESULT)]
        opens = set(self._encode(opening)) if opening else set()
        single = {ids[0] for text in found if text and len(ids := self.tokenizer.encode(text)) == 1}
        self.stop_ids = frozenset((self.tokenizer.stop_ids - opens) | single)
        texts = sorted((self.tokenizer.decode([i]) for i in self.stop_ids), key=len, reverse=True)
        self._stops = re.compile("|".join(re.escape(text) for text in texts if text) or r"(?!)")

    def _special_after(self, text: str) -> str | None:
        _, marked, after = text.partition(MARK)
        found = self._shield.special.search(after) if marked else None
        return found.group() if found else None

    def _native_format(self) -> str | None:
        """The format in which the template writes calls, if it shows tools at all and its calls can be read back."""
        shown = self._try([_ASK], (_PROBE_TOOL,), True)
        if _PROBE_TOOL.name not in shown:
            return None
        written = self._try([_ASK, _CALL, _RESULT], (_PROBE_TOOL,))
        start = len(shown) if written.startswith(shown) else len(shown.rstrip())
        if not written.startswith(shown.rstrip()):
            return None
        stop = self._stops.search(written, start)
        text = written[start : stop.start() if stop else len(written)]
        for form in FORMATS:
            calls = parse_text(text, (_PROBE_TOOL,), call_id_prefix="t0", form=form).tool_calls
            if [(call.name, call.parsed()) for call in calls] == [("q7x_probe", {"a": "b"})]:
                return form
        return None


def _result_of(call: ToolCall) -> Message:
    return Message(role="tool", tool_call_id=call.id, content="r")
