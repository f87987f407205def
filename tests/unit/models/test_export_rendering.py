"""A stock server shows an exported model what it was trained on: the same ids for the same first turn.

The tokenizer is loaded from the exported directory by transformers alone; the product's own Renderer is what training
used. Templates with a tool section of their own, and those that are given one, are alike in this.
"""

from __future__ import annotations

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from art_core.errors import ArtError
from art_core.messages import Message, ToolSpec
from art_core.models.save import write_tokenizer
from art_core.rendering.renderer import Renderer
from art_core.rendering.tokenizer import TransformersTokenizer
from tests.unit.rendering.families import FAMILIES, bpe

USER = Message(role="user", content='Wie spät ist es in Zürich? 東京は? 🙂 <b>"x"</b> {{ y }}')
SYSTEM = Message(role="system", content="Answer briefly. Ünïcödé — « ok »")
NESTED = ToolSpec(
    name="book",
    description="Book a trip — hôtel included.",
    parameters={
        "type": "object",
        "properties": {
            "route": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "city": {"type": "string", "enum": ["Zürich", "東京"]},
                        "nights": {"type": "integer"},
                    },
                    "required": ["city"],
                },
            },
            "notes": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        },
        "required": ["route"],
    },
)
DEFS = ToolSpec(
    name="plan",
    description="",
    parameters={
        "type": "object",
        "$defs": {"Day": {"type": "object", "properties": {"date": {"type": "string", "format": "date"}}}},
        "properties": {"days": {"type": "array", "items": {"$ref": "#/$defs/Day"}}},
    },
)


def trained(name):
    """A base's tokenizer, and the renderer that a run on this base has."""
    family = FAMILIES[name]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe(family.special),
        eos_token=family.eos,
        bos_token=family.bos or None,
        chat_template=family.template,
    )
    return tokenizer, Renderer(TransformersTokenizer(tokenizer))


def stock(directory, name):
    tokenizer, renderer = trained(name)
    write_tokenizer(directory, TransformersTokenizer(tokenizer, chat_template=renderer.chat_template))
    return AutoTokenizer.from_pretrained(directory, local_files_only=True), renderer


@pytest.mark.parametrize("tools", [(), (NESTED,), (NESTED, DEFS)], ids=["none", "nested", "two"])
@pytest.mark.parametrize("system", [False, True], ids=["user", "system"])
@pytest.mark.parametrize("name", FAMILIES)
def test_t19_a_stock_server_renders_the_first_turn_that_was_trained_on(tmp_path, name, system, tools):
    server, renderer = stock(tmp_path, name)
    messages = [SYSTEM, USER] if system else [USER]
    wires = [{"role": message.role, "content": message.content} for message in messages]
    shown = server.apply_chat_template(
        wires, tools=[tool.to_wire() for tool in tools] or None, add_generation_prompt=True
    )
    assert list(shown["input_ids"]) == renderer.prompt(messages, tools)


def test_both_kinds_of_template_are_among_these():
    native = {name for name in FAMILIES if trained(name)[1].native_tools}
    assert {"qwen25", "llama3", "mistral3"} <= native
    assert {"chatml", "gemma", "zephyr"} <= FAMILIES.keys() - native


def test_the_tool_section_that_a_base_lacks_is_in_the_exported_template(tmp_path):
    server, renderer = stock(tmp_path, "chatml")
    assert (tmp_path / "chat_template.jinja").read_text(encoding="utf-8") == renderer.chat_template
    shown = server.apply_chat_template([{"role": "user", "content": "u"}], tools=[NESTED.to_wire()], tokenize=False)
    assert "You can call these tools:" in shown


def test_a_tokenizer_that_renders_otherwise_is_not_exported(tmp_path, monkeypatch):
    tokenizer, renderer = trained("chatml")
    monkeypatch.setattr(PreTrainedTokenizerFast, "apply_chat_template", lambda *_, **__: {"input_ids": [1, 2]})
    with pytest.raises(ArtError, match=r"renders a first turn without tools as 2 ids that are not the \d+"):
        write_tokenizer(tmp_path, TransformersTokenizer(tokenizer, chat_template=renderer.chat_template))
