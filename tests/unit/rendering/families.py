"""Small chat templates in the manner of well-known model families, and byte-level BPE tokenizers to go with them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from art_core.rendering.renderer import Renderer

CHATML = """\
{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' }}{% endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

LLAMA2 = """\
{% if messages[0].role == 'system' %}{% set lead = '<<SYS>>\\n' + messages[0].content + '\\n<</SYS>>\\n\\n' %}{% set msgs = messages[1:] %}
{% else %}{% set lead = '' %}{% set msgs = messages %}{% endif %}
{% for m in msgs %}
{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}
{% if m.role == 'user' %}{{ bos_token + '[INST] ' + (lead if loop.first else '') + m.content.strip() + ' [/INST]' }}
{%- elif m.role == 'assistant' %}{{ ' ' + m.content.strip() + ' ' + eos_token }}{% else %}{{ raise_exception('no such role') }}{% endif %}
{% endfor %}"""

LLAMA3 = """\
{{- bos_token }}
{%- set open = '<|start_header_id|>' %}
{%- if messages[0].role == 'system' %}{% set system = messages[0].content | trim %}{% set messages = messages[1:] %}{% else %}{% set system = '' %}{% endif %}
{{- open + 'system<|end_header_id|>\\n\\nCutting Knowledge Date: December 2023\\n\\n' + system + '<|eot_id|>' }}
{%- if tools %}
{{- open + 'user<|end_header_id|>\\n\\nRespond with {"name": function name, "parameters": dictionary}.\\n\\n' }}
{%- for t in tools %}{{ t | tojson(indent=4) }}{{ '\\n\\n' }}{% endfor %}
{{- messages[0].content | trim + '<|eot_id|>' }}{% set messages = messages[1:] %}
{%- endif %}
{%- for m in messages %}
{%- if m.tool_calls %}
{{- open + 'assistant<|end_header_id|>\\n\\n' }}
{%- for c in m.tool_calls %}{{ '{"name": "' + c.function.name + '", "parameters": ' }}{{ c.function.arguments | tojson }}{{ '}' }}{% if not loop.last %}{{ ';' }}{% endif %}{% endfor %}
{{- '<|eot_id|>' }}
{%- elif m.role == 'tool' %}{{ open + 'ipython<|end_header_id|>\\n\\n' + m.content | tojson + '<|eot_id|>' }}
{%- else %}{{ open + m.role + '<|end_header_id|>\\n\\n' + m.content | trim + '<|eot_id|>' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ open + 'assistant<|end_header_id|>\\n\\n' }}{% endif %}"""

MISTRAL1 = """\
{{ bos_token }}{% for m in messages %}
{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}
{% if m.role == 'user' %}{{ '[INST] ' + m.content + ' [/INST]' }}
{%- elif m.role == 'assistant' %}{{ m.content + eos_token }}{% else %}{{ raise_exception('no such role') }}{% endif %}
{% endfor %}"""

MISTRAL3 = """\
{%- if messages[0].role == 'system' %}{% set system = messages[0].content %}{% set msgs = messages[1:] %}{% else %}{% set msgs = messages %}{% endif %}
{%- set users = msgs | selectattr('role', 'equalto', 'user') | list %}
{{- bos_token }}
{%- for m in msgs %}
{%- if m.role == 'user' %}
{%- if tools and m == users[-1] %}{{ '[AVAILABLE_TOOLS] ' + tools | tojson + '[/AVAILABLE_TOOLS]' }}{% endif %}
{{- '[INST] ' + (system + '\\n\\n' if loop.last and system is defined else '') + m.content + '[/INST]' }}
{%- elif m.tool_calls %}
{{- '[TOOL_CALLS] [' }}
{%- for c in m.tool_calls %}{% if c.id | length != 9 %}{{ raise_exception('tool call ids have 9 characters') }}{% endif %}
{{- (c.function | tojson)[:-1] + ', "id": "' + c.id + '"}' }}{{ ', ' if not loop.last else ']' + eos_token }}{% endfor %}
{%- elif m.role == 'assistant' %}{{ ' ' + m.content | trim + eos_token }}
{%- elif m.role == 'tool' %}{{ '[TOOL_RESULTS] {"content": ' + m.content | tojson + ', "call_id": "' + m.tool_call_id + '"}[/TOOL_RESULTS]' }}
{%- else %}{{ raise_exception('no such role') }}{% endif %}
{%- endfor %}"""

GEMMA = """\
{{ bos_token }}{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}
{% for m in messages %}
{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}
{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' + m.content | trim + '<end_of_turn>\\n' }}
{%- endfor %}
{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"""

_QWEN_TOOLS = """\
{%- if tools %}
{{- '<|im_start|>system\\n' + (messages[0].content if messages[0].role == 'system' else 'You are helpful.') + '\\n\\n# Tools\\n<tools>' }}
{%- for t in tools %}{{ '\\n' }}{{ t | tojson }}{% endfor %}{{ '\\n</tools><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}{{ '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}{% endif %}"""

_QWEN_RESULT = """\
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>user' }}{% endif %}
{{- '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\\n' }}{% endif %}"""

_QWEN_CALLS = """\
{%- for c in m.tool_calls or [] %}{% if not loop.first or m.content %}{{ '\\n' }}{% endif %}
{{- '<tool_call>\\n{"name": "' + c.function.name + '", "arguments": ' }}{{ c.function.arguments | tojson }}{{ '}\\n</tool_call>' }}{% endfor %}"""

_QWEN_OPEN = "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"

QWEN25 = (
    _QWEN_TOOLS
    + "{%- for m in messages %}{% if m.role == 'tool' %}"
    + _QWEN_RESULT
    + "{%- elif m.role == 'assistant' %}{{ '<|im_start|>assistant\\n' + m.content }}"
    + _QWEN_CALLS
    + "{{- '<|im_end|>\\n' }}{%- elif not (m.role == 'system' and loop.first) %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endif %}{% endfor %}"
    + _QWEN_OPEN
)

QWEN3 = (
    _QWEN_TOOLS
    + """{%- set ns = namespace(last=-1) %}
{%- for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}
{%- for m in messages %}{% if m.role == 'tool' %}"""
    + _QWEN_RESULT
    + """{%- elif m.role == 'assistant' %}{{ '<|im_start|>assistant\\n' }}
{%- if loop.index0 > ns.last and (loop.last or m.reasoning_content) %}{{ '<think>\\n' + (m.reasoning_content or '') + '\\n</think>\\n\\n' }}{% endif %}
{{- m.content }}"""
    + _QWEN_CALLS
    + "{{- '<|im_end|>\\n' }}{%- elif not (m.role == 'system' and loop.first) %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endif %}{% endfor %}"
    + _QWEN_OPEN
)

QWEN_CODER = QWEN25.replace(
    _QWEN_CALLS,
    """{%- for c in m.tool_calls or [] %}{{ '\\n<tool_call>\\n<function=' + c.function.name + '>\\n' }}
{%- for k, v in c.function.arguments.items() %}{{ '<parameter=' + k + '>\\n' + (v if v is string else v | tojson) + '\\n</parameter>\\n' }}{% endfor %}
{{- '</function>\\n</tool_call>' }}{% endfor %}""",
)

PHI3 = """\
{% for m in messages %}{{ '<|' + m.role + '|>\\n' + m.content + '<|end|>\\n' }}{% endfor %}
{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"""

DEEPSEEK_R1 = """\
{{ bos_token }}{% for m in messages %}
{%- if m.role == 'system' and loop.first %}{{ m.content }}
{%- elif m.role == 'user' %}{{ '<｜User｜>' + m.content }}
{%- elif m.role == 'assistant' %}{{ '<｜Assistant｜>' + m.content.split('</think>')[-1] + '<｜end▁of▁sentence｜>' }}{% endif %}
{%- endfor %}
{% if add_generation_prompt %}{{ '<｜Assistant｜><think>\\n' }}{% endif %}"""

GLM = """\
[gMASK]<sop>{% if tools %}{{ '<|system|>\\nTools:' }}{% for t in tools %}{{ '\\n' + t | tojson }}{% endfor %}{% endif %}
{% for m in messages %}
{%- if m.role == 'tool' %}{% if messages[loop.index0 - 1].role != 'tool' %}{{ '<|observation|>' }}{% endif %}{{ '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}
{%- else %}{{ '<|' + m.role + '|>\\n' + m.content }}
{%- for c in m.tool_calls or [] %}{{ '\\n<tool_call>\\n{"name": "' + c.function.name + '", "arguments": ' + c.function.arguments | tojson + '}\\n</tool_call>' }}{% endfor %}{% endif %}
{%- endfor %}
{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"""

ZEPHYR = """\
{% for m in messages %}{{ '<|' + m.role + '|>\\n' + m.content + eos_token + '\\n' }}{% endfor %}
{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"""

COMMAND_R = """\
{{ bos_token }}{% for m in messages %}{{ '<|START_OF_TURN_TOKEN|>' + {'system': '<|SYSTEM_TOKEN|>', 'user': '<|USER_TOKEN|>', 'assistant': '<|CHATBOT_TOKEN|>'}[m.role] + m.content.strip() + '<|END_OF_TURN_TOKEN|>' }}{% endfor %}
{% if add_generation_prompt %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{% endif %}"""

VICUNA = """\
{{ bos_token }}{% for m in messages %}
{%- if m.role == 'assistant' %}{{ 'ASSISTANT: ' + m.content + eos_token }}{% elif m.role == 'user' %}{{ 'USER: ' + m.content + ' ' }}{% else %}{{ m.content + '\\n\\n' }}{% endif %}
{%- endfor %}
{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"""


@dataclass(frozen=True)
class Family:
    """A template and what is to be expected of it."""

    template: str
    special: tuple[str, ...]
    eos: str
    bos: str = ""
    form: str | None = None
    """The native tool format; None: the fallback is used."""
    stop: str = ""
    """The text a model ends a turn with, where it is not ``eos``."""
    tool_bridge: bool = True
    user_bridge: bool = True


_IM = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
_S = ("<s>", "</s>")

FAMILIES: dict[str, Family] = {
    "chatml": Family(CHATML, _IM, "<|im_end|>"),
    "command_r": Family(
        COMMAND_R,
        (
            "<BOS_TOKEN>",
            "<|START_OF_TURN_TOKEN|>",
            "<|END_OF_TURN_TOKEN|>",
            "<|USER_TOKEN|>",
            "<|CHATBOT_TOKEN|>",
            "<|SYSTEM_TOKEN|>",
        ),
        "<|END_OF_TURN_TOKEN|>",
        bos="<BOS_TOKEN>",
    ),
    "deepseek_r1": Family(
        DEEPSEEK_R1,
        ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"),
        "<｜end▁of▁sentence｜>",
        bos="<｜begin▁of▁sentence｜>",
    ),
    "gemma": Family(
        GEMMA, ("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"), "<eos>", bos="<bos>", stop="<end_of_turn>"
    ),
    "glm": Family(
        GLM,
        ("[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>", "<|endoftext|>"),
        "<|endoftext|>",
        form="hermes",
        stop="next",
    ),
    "llama2": Family(LLAMA2, _S, "</s>", bos="<s>"),
    "llama3": Family(
        LLAMA3,
        (
            "<|begin_of_text|>",
            "<|end_of_text|>",
            "<|start_header_id|>",
            "<|end_header_id|>",
            "<|eot_id|>",
            "<|python_tag|>",
        ),
        "<|end_of_text|>",
        bos="<|begin_of_text|>",
        form="llama",
        stop="<|eot_id|>",
    ),
    "mistral1": Family(MISTRAL1, _S, "</s>", bos="<s>"),
    "mistral3": Family(
        MISTRAL3,
        (
            *_S,
            "[INST]",
            "[/INST]",
            "[TOOL_CALLS]",
            "[AVAILABLE_TOOLS]",
            "[/AVAILABLE_TOOLS]",
            "[TOOL_RESULTS]",
            "[/TOOL_RESULTS]",
        ),
        "</s>",
        bos="<s>",
        form="mistral",
        user_bridge=False,
    ),
    "phi3": Family(
        PHI3, ("<|user|>", "<|assistant|>", "<|system|>", "<|end|>", "<|endoftext|>"), "<|endoftext|>", stop="<|end|>"
    ),
    "qwen25": Family(QWEN25, _IM, "<|im_end|>", form="hermes"),
    "qwen3": Family(QWEN3, _IM, "<|im_end|>", form="hermes"),
    "qwen_coder": Family(QWEN_CODER, _IM, "<|im_end|>", form="xml"),
    "vicuna": Family(VICUNA, _S, "</s>", bos="<s>"),
    "zephyr": Family(ZEPHYR, _S, "</s>"),
}

_CORPUS = [
    "You are a helpful assistant. What time is it in Tokyo? The weather in Zürich is 21 °C, naïve café.",
    '<tool_call>\n{"name": "get_time", "arguments": {"city": "Tokyo"}}\n</tool_call>',
    "system user assistant tool error: no such city; the answer is 12:00 and the result was found",
] * 4


class ToyTokenizer:
    """A byte-level BPE tokenizer with a family's control tokens."""

    def __init__(self, chat_template: str, special: Sequence[str], eos: str, bos: str = "", stop: Sequence[str] = ()):
        self._tokenizer = bpe(special)
        self.chat_template = chat_template
        self.special_tokens: Mapping[str, str] = {"eos_token": eos, "bos_token": bos}
        self.special_texts = frozenset(special)
        self.stop_ids = frozenset(self._tokenizer.token_to_id(text) for text in (eos, *stop))
        self.vocab_size = self._tokenizer.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))


def bpe(special: Sequence[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(_CORPUS, trainer)
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in special])
    return tokenizer


@cache
def renderer(name: str) -> Renderer:
    family = FAMILIES[name]
    return Renderer(ToyTokenizer(family.template, family.special, family.eos, family.bos))


def write_calls(form: str | None, calls: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """The text with which a model of that format makes calls."""
    if form == "llama":
        return ";".join(json.dumps({"name": name, "parameters": arguments}) for name, arguments in calls)
    if form == "mistral":
        items = [{"name": n, "arguments": a, "id": f"call{i:05d}"} for i, (n, a) in enumerate(calls)]
        return "[TOOL_CALLS] " + json.dumps(items)
    if form == "xml":
        inner = (
            f"<function={n}>\n" + "".join(f"<parameter={k}>\n{v}\n</parameter>\n" for k, v in a.items()) + "</function>"
            for n, a in calls
        )
        return "\n".join(f"\n<tool_call>\n{text}\n</tool_call>" for text in inner)
    texts = (json.dumps({"name": name, "arguments": arguments}) for name, arguments in calls)
    return "\n".join(f"<tool_call>\n{text}\n</tool_call>" for text in texts)
