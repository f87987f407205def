"""Chat templates: running one as stock servers do, and giving tools to one that has no section for them.

A template with tools added is again one Jinja source. It is saved with every checkpoint, so a stock server shows the
deployed model what it was trained on.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from art_core.errors import InputError
from art_core.messages import Message

__all__ = ["CHATML", "ChatTemplate", "template_messages", "with_tools"]

CHATML = resources.files(__package__).joinpath("chatml.jinja").read_text(encoding="utf-8")
"""ChatML without a tool section and without a default system text."""

_FALLBACK = resources.files(__package__).joinpath("tool_fallback.jinja").read_text(encoding="utf-8")
_MARK = "Q7xMarkedTextQ7x"


class _GenerationTag(Extension):
    """``{% generation %}`` marks assistant text for other trainers; here only its body counts."""

    tags = {"generation"}  # noqa: RUF012 the base class declares it as an instance attribute

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _now(form: str) -> str:
    return datetime.datetime.now().strftime(form)


@lru_cache(maxsize=64)
def _compiled(source: str) -> jinja2.Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals.update(raise_exception=_raise, strftime_now=_now)
    return environment.from_string(source)


class ChatTemplate:
    """One Jinja chat template, with the same filters, globals and white-space rules as Hugging Face tokenizers.

    ``special_tokens`` are the variables it may name, such as ``bos_token``.

    Raises:
        InputError: the source is not valid Jinja.
    """

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        self.source = source
        self._variables = dict(special_tokens)
        try:
            self._template = _compiled(source)
        except jinja2.TemplateSyntaxError as error:
            raise InputError(f"the chat template is not valid Jinja: line {error.lineno}: {error.message}") from error

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        add_generation_prompt: bool = False,
    ) -> str:
        """The text of a conversation. No tools and an empty list of tools are the same.

        Raises:
            InputError: the template refuses this conversation.
        """
        try:
            return self._template.render(
                self._variables, messages=messages, tools=tools or None, add_generation_prompt=add_generation_prompt
            )
        except Exception as error:  # templates are foreign code and fail in any way they like
            roles = ", ".join(str(message.get("role")) for message in messages)
            raise InputError(f"the chat template refused messages with roles {roles}: {error}") from error


def template_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The form templates expect: content as text, arguments as objects."""
    wires: list[dict[str, Any]] = []
    for message in messages:
        wire: dict[str, Any] = {"role": message.role, "content": message.text}
        if message.tool_calls:
            wire["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.parsed()}}
                for call in message.tool_calls
            ]
        if message.tool_call_id is not None:
            wire["tool_call_id"] = message.tool_call_id
        if message.name is not None:
            wire["name"] = message.name
        if message.reasoning is not None:
            wire["reasoning_content"] = message.reasoning
        wires.append(wire)
    return wires


def with_tools(source: str, special_tokens: Mapping[str, str]) -> str:
    """The template with a tool section, calls and results (Hermes style) written in front of it.

    What the template can and cannot do (a system role, two user messages in a row) is found by trying it.
    """
    template = ChatTemplate(source, special_tokens)
    user, system = {"role": "user", "content": "u"}, {"role": "system", "content": _MARK}
    plain, led = _attempt(template, [user]), _attempt(template, [system, user])
    knobs: dict[str, bool | str] = {
        "art_system_role": led is not None and _MARK in led,
        "art_alternate": _attempt(template, [user, user]) is None,
        "art_default_system": _default_system(plain, led),
    }
    header = "".join("{%- set " + name + " = " + _literal(value) + " -%}\n" for name, value in knobs.items())
    return header + _FALLBACK + source


def _default_system(plain: str | None, led: str | None) -> str:
    """The system text the template writes on its own when none is given."""
    if plain is None or led is None or led.count(_MARK) != 1:
        return ""
    head, tail = led.split(_MARK)
    fits = len(plain) > len(head) + len(tail) and plain.startswith(head) and plain.endswith(tail)
    return plain[len(head) : len(plain) - len(tail)] if fits else ""


def _attempt(template: ChatTemplate, messages: list[dict[str, str]]) -> str | None:
    try:
        return template.render(messages)
    except InputError:
        return None


def _literal(value: bool | str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"
