"""TRL's side of ``vs_trl.py``: one optimizer step of its ``GRPOTrainer`` for each line on standard input.

    vs_trl_theirs.py TASK.json        (run by TRL's own Python)

Sampling is all of ``_generate_and_score_completions``, so rewards and advantages are in it as on the other side; training
is the rest of the step. Tokens are counted where the model embeds them.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.worker import Parent


class Measured(GRPOTrainer):
    """Measures what it does and checks that it is what was asked for."""

    task: dict[str, Any]
    sampling = False

    def watch(self, task: dict[str, Any]) -> None:
        """Begin to count."""
        self.task = task
        self.sample_seconds = 0.0
        self.tokens = {"sample": 0, "train": 0}
        self.model.get_input_embeddings().register_forward_pre_hook(self._count)

    def _count(self, _: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        self.tokens["sample" if self.sampling else "train"] += inputs[0].numel()

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self.sampling, began = True, time.perf_counter()
        output = super()._generate_and_score_completions(inputs)
        self.sampling, self.sample_seconds = False, time.perf_counter() - began
        prompt, new = self.task["prompt"], self.task["new"]
        if output["prompt_mask"].shape[1] != prompt or int(output["prompt_mask"].min()) != 1:
            raise SystemExit(f"TRL's prompts are not {prompt} tokens each; this tokenizer adds or joins some")
        if output["completion_mask"].shape[1] != new or int(output["completion_mask"].min()) != 1:
            raise SystemExit(f"TRL's completions are not {new} tokens each")
        if int((output["advantages"] != 0).sum()) != len(inputs):
            raise SystemExit("an advantage is 0: the rewards of some group have no spread")
        return output


class OnCommand(TrainerCallback):
    """Makes every optimizer step wait for the parent, and tells it what the step took."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent
        self.trainer: Measured

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        if not self._parent.wait():
            raise SystemExit(0)
        self.trainer.tokens = {"sample": 0, "train": 0}
        self._began, self._used = time.perf_counter(), time.process_time()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        step, sample = time.perf_counter() - self._began, self.trainer.sample_seconds
        seconds = {"step": step, "sample": sample, "train": step - sample}
        cores = (time.process_time() - self._used) / step
        self._parent.answer(seconds=seconds, tokens=self.trainer.tokens, cores=cores)


def main() -> None:
    parent = Parent()
    task = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    groups = [group for step in task["steps"] for group in step]
    with tempfile.TemporaryDirectory(prefix="trl-") as folder:
        callback = OnCommand(parent)
        callback.trainer = trainer = Measured(
            model=AutoModelForCausalLM.from_pretrained(task["model"], dtype=torch.float32),
            reward_funcs=_reward,
            args=_config(task, folder),
            train_dataset=Dataset.from_dict(
                {name: [group[name] for group in groups] for name in ("prompt", "rewards")}
            ),
            processing_class=AutoTokenizer.from_pretrained(task["model"]),
            peft_config=LoraConfig(
                r=task["rank"],
                lora_alpha=task["alpha"],
                lora_dropout=0.0,
                target_modules="all-linear",
                task_type="CAUSAL_LM",
            ),
            callbacks=[callback],
        )
        trainer.watch(task)
        versions = {name: version(name) for name in ("trl", "torch", "transformers", "peft")}
        parent.answer(versions=versions, threads=torch.get_num_threads())
        trainer.train()


def _config(task: dict[str, Any], folder: str) -> GRPOConfig:
    return GRPOConfig(
        output_dir=folder,
        use_cpu=True,
        bf16=task["precision"] == "bfloat16",
        per_device_train_batch_size=task["group_size"],
        gradient_accumulation_steps=len(task["steps"][0]),
        num_generations=task["group_size"],
        max_completion_length=task["new"],
        generation_kwargs={"min_new_tokens": task["new"]},
        max_steps=len(task["steps"]),
        learning_rate=task["learning_rate"],
        lr_scheduler_type="constant",
        loss_type="dapo",
        beta=0.0,
        num_iterations=1,
        temperature=1.0,
        shuffle_dataset=False,
        gradient_checkpointing=False,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )


def _reward(completions: list[str], rewards: list[list[float]], **_: Any) -> list[float]:
    """The task's rewards, whatever was said: siblings come one after the other."""
    return [of_group[index % len(of_group)] for index, of_group in enumerate(rewards)]


if __name__ == "__main__":
    main()
