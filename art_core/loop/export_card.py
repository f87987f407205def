"""The README.md of an exported directory: what it is, what the run measured, how it is served."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .export_source import AdapterSource

if TYPE_CHECKING:
    from art_core.models.export import ExportJob, Made

__all__ = ["write_card"]

_LIBRARY = {"adapter": "peft", "merged": "transformers", "gguf": "gguf"}
_PARSERS: Mapping[str, str] = {"hermes": "hermes", "xml": "qwen3_coder", "llama": "llama3_json", "mistral": "mistral"}
"""Format of tool calls → vLLM's name for what reads it."""
_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""The values that vLLM's --max-lora-rank takes."""


def write_card(place: Path, *, job: ExportJob, made: Made, found: AdapterSource, warnings: Sequence[str]) -> Path:
    """Write README.md into ``place``, whose other files are there already."""
    text = "\n\n".join(_sections(place, job, made, found, warnings)) + "\n"
    card = place / "README.md"
    card.write_text(text, encoding="utf-8")
    return card


def _sections(place: Path, job: ExportJob, made: Made, found: AdapterSource, warnings: Sequence[str]) -> Iterator[str]:
    tags = "[lora, art-integrations]" if job.form == "adapter" else "[art-integrations]"
    head = {"base_model": json.dumps(found.base_model), "library_name": _LIBRARY[job.form], "tags": tags}
    yield "\n".join(["---", *(f"{key}: {value}" for key, value in head.items()), "---"])
    yield f"# {job.name}"
    yield f"{_what(job, made, found)}{_where(found)}."
    yield from (f"**Note:** {warning}." for warning in warnings)
    if found.summary is not None:
        yield _figures(found)
    yield (
        f"When it was written it was loaded again: its logprobs are within {made.difference.largest:.2g} nats of those of "
        "the adapter on its base. `manifest.json` has the size and the SHA-256 of every file."
    )
    yield "## Serving"
    yield (
        "A server has to use the chat template in `chat_template.jinja`; with another one it would show the model prompts "
        "of a form it was not trained on. `DIR` is this directory."
    )
    yield from {"adapter": _serve_adapter, "merged": _serve_merged, "gguf": _serve_gguf}[job.form](place, job, made)


def _what(job: ExportJob, made: Made, found: AdapterSource) -> str:
    if job.form == "adapter":
        return f"A LoRA adapter of rank {made.rank} ({made.dtype}) for `{found.base_model}`"
    kind = "A GGUF file" if job.form == "gguf" else "A whole model"
    return f"{kind} ({made.dtype}): `{found.base_model}` with a LoRA adapter of rank {made.rank} merged in"


def _where(found: AdapterSource) -> str:
    step = None if found.step is None else f"step {found.step}"
    run = None if found.run is None else f"run `{found.run}`"
    return f", trained with art-integrations: {' of '.join(filter(None, (step, run)))}" if step or run else ""


def _figures(found: AdapterSource) -> str:
    summary = found.summary or {}
    before, after, gain = (summary.get(name) for name in ("before", "after", "gain"))
    if not found.measured:
        return f"The run measured step {summary.get('best_step')} and not this one, so there are no figures of it."
    if summary.get("kind") == "sft":
        return _losses(before, after)
    if not (before and after):
        return "The run held out no test scenarios, or was ended before it measured this adapter on them."
    lines = [
        "| on held-out test scenarios | before | after |",
        "|---|---|---|",
        *(
            f"| {name} | {_number(before.get(name))} | {_number(after.get(name))} |"
            for name in ("success", "reward")
            if before.get(name) is not None or after.get(name) is not None
        ),
        f"| scenarios | {before.get('n')} | {after.get('n')} |",
    ]
    if gain and gain.get("difference") is not None:
        interval = _interval(gain.get("ci95"))
        lines.append(f"\nGain in {gain['measure']}: {gain['difference']:+.3f}{interval}, paired, n={gain['n']}.")
    return "\n".join(lines)


def _losses(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str:
    """Of supervised fine-tuning."""
    if not (before and after):
        return "The run held out no rows, or was ended before it measured this adapter on them."
    return "\n".join(
        [
            "| on held-out rows | before | after |",
            "|---|---|---|",
            f"| loss, nats a token | {_number(before.get('loss'))} | {_number(after.get('loss'))} |",
            f"| rows | {before.get('n')} | {after.get('n')} |",
        ]
    )


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


def _interval(bounds: Any) -> str:
    return "" if not bounds else f" (95 % interval {bounds[0]:+.3f} to {bounds[1]:+.3f})"


def _serve_adapter(place: Path, job: ExportJob, made: Made) -> Iterator[str]:
    base = job.base_model if "/" in job.base_model and not Path(job.base_model).expanduser().is_dir() else "BASE"
    if base == "BASE":
        yield f"`BASE` is the directory or id of `{job.base_model}`."
    rank = next((size for size in _RANKS if size >= made.rank), made.rank)
    yield _console(
        f"vllm serve {base} --enable-lora --max-lora-rank {rank} --lora-modules {job.name}=DIR "
        f"--chat-template DIR/chat_template.jinja{_tools(made)}"
    )
    yield _python(
        "from peft import PeftModel",
        "from transformers import AutoModelForCausalLM, AutoTokenizer",
        "",
        f'model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained("{base}"), "DIR")',
        'tokenizer = AutoTokenizer.from_pretrained("DIR")  # with the chat template',
    )


def _serve_merged(place: Path, job: ExportJob, made: Made) -> Iterator[str]:
    yield _console(f"vllm serve DIR --served-model-name {job.name}{_tools(made)}")
    yield _python(
        "from transformers import AutoModelForCausalLM, AutoTokenizer",
        "",
        'model = AutoModelForCausalLM.from_pretrained("DIR")',
        'tokenizer = AutoTokenizer.from_pretrained("DIR")  # with the chat template',
    )


def _serve_gguf(place: Path, job: ExportJob, made: Made) -> Iterator[str]:
    (file,) = place.glob("*.gguf")
    yield "The file holds the chat template too; `--jinja` makes the server use it."
    yield _console(f"llama-server --model DIR/{file.name} --alias {job.name} --jinja")


def _tools(made: Made) -> str:
    if made.tool_format is None:
        return ""
    return f" --enable-auto-tool-choice --tool-call-parser {_PARSERS[made.tool_format]}"


def _console(line: str) -> str:
    return f"```console\n$ {line}\n```"


def _python(*lines: str) -> str:
    return "\n".join(["```python", *lines, "```"])
