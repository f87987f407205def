"""Making an adapter deployable: as it is, merged into its base, or as GGUF; each loaded again and compared.

Files go into a directory that the caller moves into place, so nothing is ever half-written where a user looks. What is
returned has been loaded from those files by a stock loader and computes what the adapter computes on its base; the chat
template beside it is the one the model was trained with.
"""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from gguf import GGUFReader
from transformers import AutoModelForCausalLM, GgufConfig, PreTrainedModel
from transformers.utils import logging as transformers_logging

from art_core.errors import ArtError
from art_core.rendering.renderer import Renderer

from .compute import COMPUTE
from .converter import OUTTYPES, convert_to_gguf
from .fold import FoldedModel
from .load import load_model
from .lora import load_peft, read_adapter
from .reload import FAINT, LIMITS, Difference, Reference, logprobs_of, probe_sequences
from .save import eos_ids, generation_config, write_adapter, write_merged, write_tokenizer

__all__ = ["ExportJob", "Made", "make"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportJob:
    """What to make."""

    adapter: Path
    """A directory with a PEFT LoRA."""
    base_model: str
    form: Literal["adapter", "merged", "gguf"]
    dtype: str | None
    """Of the written weights, a key of ``reload.LIMITS``; None, for an adapter only: as they are."""
    converter: tuple[str, ...] = ()
    """The command that makes a GGUF file."""
    name: str = "model"
    """Of the GGUF file, before its precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What was made."""

    dtype: str
    rank: int
    difference: Difference
    """Between what was written, loaded again, and the adapter on its base."""
    limit: float
    """What the largest of ``difference`` may be at this precision, in nats."""
    faint: str | None
    """Why the adapter changes nothing to speak of; None if it does."""
    tool_format: str | None
    """How the template writes calls, a key of ``parsing.FORMATS``; None: it has no tool section."""
    unknown_stops: tuple[str, ...]
    """What ended turns in training and is not among the base's own ends of a reply."""


def make(job: ExportJob, place: Path, scratch: Path, say: Callable[[str], None]) -> Made:
    """Write ``job`` into the directory ``place`` and compare it; ``scratch`` is one for what is not kept.

    Raises:
        InputError: the adapter is no plain LoRA, or does not fit the base.
        ArtError: what was written does not compute, or does not render, what it should.
    """
    with _quiet():
        making = _Making(job, place, scratch, say)
        return making.run()


class _Making:
    """One job on its way: the base in memory, and what the adapter computes on it."""

    def __init__(self, job: ExportJob, place: Path, scratch: Path, say: Callable[[str], None]) -> None:
        self.job, self.place, self.scratch, self.say = job, place, scratch, say
        self.checked_as = job.dtype or "float32"  # weights that are only copied have to be exact
        self.adapter = read_adapter(job.adapter)
        say(f"loading {job.base_model}")
        file = job.adapter / "chat_template.jinja"
        template = file.read_text(encoding="utf-8") if file.is_file() else None
        self.base = load_model(job.base_model, chat_template=template)
        FoldedModel(self.base.model).check(self.adapter)
        self.tokenizer = self.base.tokenizer
        self.renderer = Renderer(self.tokenizer)
        self.reference = COMPUTE.run(self._reference)

    def run(self) -> Made:
        difference = {"adapter": self._adapter, "merged": self._merged, "gguf": self._gguf}[self.job.form]()
        downs = [down for down, _ in self.adapter.factors.values()]
        known = eos_ids(generation_config(self.base)) | {self.tokenizer.tokenizer.eos_token_id}
        return Made(
            dtype=self.job.dtype or str(downs[0].dtype).removeprefix("torch."),
            rank=downs[0].shape[0],
            difference=difference,
            limit=LIMITS[self.checked_as],
            faint=self._why_faint(),
            tool_format=self.renderer.tool_format if self.renderer.native_tools else None,
            unknown_stops=tuple(self.tokenizer.decode([i]) for i in sorted(self.renderer.stop_ids - known)),
        )

    def _reference(self) -> Reference:
        """What is to be reproduced, from the adapter as it was found; the base is left as it was."""
        model = self.base.model
        sequences = probe_sequences(self.renderer, model.config.get_text_config().vocab_size)
        base = logprobs_of(model, sequences)
        adapted = load_peft(model, self.job.adapter)
        reference = Reference(sequences=sequences, base=base, adapted=logprobs_of(adapted, sequences))
        adapted.unload()
        return reference

    def _adapter(self) -> Difference:
        write_adapter(self.place, self.job.adapter, self.base, dtype=self.job.dtype)
        write_tokenizer(self.place, self.tokenizer)
        self.say("loading it again and comparing")
        model = COMPUTE.run(load_peft, self.base.model, self.place)
        return COMPUTE.run(self.reference.check, model, dtype=self.checked_as)

    def _merged(self) -> Difference:
        assert self.job.dtype is not None
        self.say(f"merging into {self.job.dtype} weights")
        self._merge(self.place, self.job.dtype)
        self.say("loading it again and comparing")
        model = AutoModelForCausalLM.from_pretrained(self.place, dtype=torch.float32, local_files_only=True)
        return COMPUTE.run(self.reference.check, model.eval(), dtype=self.checked_as)

    def _gguf(self) -> Difference:
        assert self.job.dtype is not None
        self.say("merging into float32 weights for the converter")
        merged = self.scratch / self.job.name
        merged.mkdir()
        self._merge(merged, "float32")
        file = self.place / f"{self.job.name}-{OUTTYPES[self.job.dtype]}.gguf"
        self.say(f"converting to {file.name}")
        convert_to_gguf(self.job.converter, merged, file, dtype=self.job.dtype)
        shutil.rmtree(merged)
        _check_template(file, self.tokenizer.chat_template)
        (self.place / "chat_template.jinja").write_text(self.tokenizer.chat_template, encoding="utf-8")
        self.say("loading it again and comparing")
        return COMPUTE.run(self.reference.check, _read_gguf(file), dtype=self.checked_as)

    def _merge(self, place: Path, dtype: str) -> None:
        write_merged(place, self.base, self.adapter, dtype=dtype, stop_ids=self.renderer.stop_ids)
        write_tokenizer(place, self.tokenizer)

    def _why_faint(self) -> str | None:
        if not any(down.any() and up.any() for down, up in self.adapter.factors.values()):
            return "this adapter changes nothing: one of its two factors is zero in every module"
        mean = self.reference.effect.mean
        return None if mean > FAINT else f"this adapter changes next to nothing: logprobs by {mean:.2g} nats on average"


def _check_template(file: Path, template: str) -> None:
    """See that a GGUF file holds the chat template.

    Raises:
        ArtError: it holds another one or none, or is not GGUF.
    """
    try:
        field = GGUFReader(file).get_field("tokenizer.chat_template")
    except ValueError as error:
        raise ArtError(f"the converter's {file.name} is not a GGUF file: {error}") from error
    if field is None or field.contents() != template:
        raise ArtError(
            f"the converter's {file.name} does not hold the chat template the model was trained with; use that of a newer "
            "llama.cpp"
        )


def _read_gguf(file: Path) -> PreTrainedModel:
    """The model in a GGUF file, its weights dequantised to float32.

    Raises:
        ArtError: transformers cannot read it.
    """
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # the reader's own progress bar, which has no switch
            model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
                file.parent,
                gguf_file=file.name,
                dtype=torch.float32,
                quantization_config=GgufConfig(dequantize=True),
            )
    except (ValueError, KeyError, OSError) as error:
        raise ArtError(
            f"{file.name} cannot be loaded again by transformers, so what it computes is not known "
            f"({' '.join(str(error).split())}); export the merged form and convert that"
        ) from error
    return model.eval()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without progress bars, and without the remarks of transformers on models that are taken as they are."""
    verbosity, bars = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()
