"""Run by TRL's own Python: TRL's losses and gradients for jobs that a test left in a folder.

    worker.py FOLDER

``FOLDER/jobs.json`` lists names, options of ``GRPOConfig``, batches, and whether tokens are weighed by the batch's importance
ratios; ``model`` and ``adapter`` lie beside it, and every batch is ``FOLDER/<batch>.safetensors``. Each job leaves
``FOLDER/<name>.safetensors``: the loss, and the gradient of each parameter of the adapter. A batch is given to TRL in two
halves, as its gradient accumulation does.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import PeftConfig, load_peft_weights, set_peft_model_state_dict
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

HALVES = 2


def main() -> None:
    folder = Path(sys.argv[1])
    for job in json.loads((folder / "jobs.json").read_text(encoding="utf-8")):
        batch = load_file(folder / f"{job['batch']}.safetensors")
        rows = len(batch["advantages"])
        trainer = _trainer(folder, rows // HALVES, job["options"])
        if job["weighed"]:  # as with vLLM, which is not needed once the trainer is there
            trainer.use_vllm = trainer.vllm_importance_sampling_correction = True
        save_file(_loss_and_gradient(trainer, batch), folder / f"{job['name']}.safetensors")


def _trainer(folder: Path, rows: int, options: dict[str, Any]) -> GRPOTrainer:
    adapter = PeftConfig.from_pretrained(folder / "adapter")
    adapter.inference_mode = False  # as saved, its weights would be frozen
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32),
        reward_funcs=lambda completions, **_: [0.0 for _ in completions],
        args=GRPOConfig(
            output_dir=str(folder / "trl"),
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            report_to="none",
            per_device_train_batch_size=rows,
            num_generations=rows,
            gradient_accumulation_steps=HALVES,
            **options,
        ),
        train_dataset=Dataset.from_dict({"prompt": ["a"] * HALVES}),
        processing_class=AutoTokenizer.from_pretrained(folder / "model"),
        peft_config=adapter,
    )
    set_peft_model_state_dict(trainer.model, load_peft_weights(folder / "adapter", device="cpu"))
    trainer.current_gradient_accumulation_steps = HALVES  # the training loop sets it before the first loss
    return trainer


def _loss_and_gradient(trainer: GRPOTrainer, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    trained = (batch["completion_mask"] * batch["tool_mask"]).sum()
    if trainer.beta:
        batch["ref_per_token_logps"] = _reference(trainer, batch)
    trainer.model.train()
    total = torch.zeros(())
    for half in range(HALVES):
        inputs = {name: tensor.chunk(HALVES)[half] for name, tensor in batch.items()}
        loss = trainer.compute_loss(trainer.model, {**inputs, "num_items_in_batch": trained})
        loss.backward()
        total += loss.detach()
    gradient = {name: p.grad for name, p in trainer.model.named_parameters() if p.grad is not None}
    return {"loss": total, **gradient}


def _reference(trainer: GRPOTrainer, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """(B, C) logprobs of the completions under the base model, by TRL's own forward pass."""
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    with torch.no_grad(), trainer.model.disable_adapter():
        return trainer._get_per_token_logps_and_entropies(trainer.model, ids, mask, batch["completion_ids"].size(1))[0]


if __name__ == "__main__":
    main()
