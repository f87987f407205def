"""Adapters on tiny models, on disk, for the tests of exports."""

from __future__ import annotations

from pathlib import Path

import torch

from art_core.models.config import LoraConfig
from art_core.models.export import ExportJob, Made, make
from art_core.models.lora import attach
from tests.tiny import save_tiny, tiny_model

IDS = torch.tensor([[3, 5, 8, 13, 21, 34, 55, 89]])


def save_base(directory: Path, family: str = "llama") -> Path:
    """A base model with a tokenizer."""
    return save_tiny(directory / family, family)


def save_lora(directory: Path, family: str = "llama", *, b_std: float = 0.1, targets="all-linear") -> Path:
    """A LoRA of rank 4 on that family's base; with ``b_std`` 0 it changes nothing."""
    model = attach(tiny_model(family), LoraConfig(rank=4, targets=targets))
    torch.manual_seed(1)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=b_std)
    model.save_pretrained(directory / f"{family}-lora", save_embedding_layers=False)
    return directory / f"{family}-lora"


def exported(tmp_path: Path, form: str, dtype: str | None, *, family: str = "llama", **lora) -> tuple[Path, Made]:
    """The directory that ``make`` filled from such an adapter, and what it says of it."""
    job = ExportJob(
        adapter=save_lora(tmp_path, family, **lora),
        base_model=str(save_base(tmp_path, family)),
        form=form,
        dtype=dtype,
    )
    place, scratch = tmp_path / "place", tmp_path / "scratch"
    place.mkdir()
    scratch.mkdir()
    return place, make(job, place, scratch, lambda line: None)
