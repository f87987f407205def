"""Our side of ``vs_trl.py``: one step of sampling, training and publishing for each line on standard input.

    vs_trl_ours.py TASK.json

Engine, trainer and the way from one to the other are those of ``loop.embedded``; rewards and advantages count as sampling.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from art_core.inference.protocol import Completion, SamplingParams
from art_core.inference.transformers_engine import TransformersEngine
from art_core.models.config import LoraConfig
from art_core.models.load import load_model
from art_core.models.lora import attach
from art_core.training import checkpoint
from art_core.training.advantages import step_advantages
from art_core.training.trainer import GrpoTrainer, TrainingConfig
from art_core.trajectory.graph import PolicyVersion
from art_core.trajectory.samples import TrainingSample
from benchmarks.worker import Parent


class Side:
    """The model, its sampler and its trainer."""

    def __init__(self, task: dict[str, Any]) -> None:
        self._task = task
        self._version = PolicyVersion("default", 0)
        rows = len(task["steps"][0]) * task["group_size"]
        loaded = load_model(task["model"])
        self._engine = TransformersEngine(
            loaded.model, precision=task["precision"], max_rows=max(64, rows), version=self._version
        )
        self._model = attach(loaded.model, LoraConfig(rank=task["rank"], alpha=task["alpha"]))
        config = TrainingConfig(learning_rate=task["learning_rate"], loss="dapo")
        self._trainer = GrpoTrainer(self._model, config, precision=task["precision"])
        self._template = loaded.tokenizer.chat_template

    async def step(self, groups: list[dict[str, Any]]) -> dict[str, Any]:
        """One step on the task's groups; its seconds and the tokens that went through the model."""
        began, used, before = time.perf_counter(), time.process_time(), self._engine.computed_tokens
        samples = await self._sample(groups)
        advantages = step_advantages([group["rewards"] for group in groups])
        sampled, computed = time.perf_counter(), self._engine.computed_tokens - before
        report = self._trainer.step(samples, [value or 0.0 for of_group in advantages for value in of_group])
        trained = time.perf_counter()
        await self._publish()
        published = time.perf_counter()
        if report.rows_skipped:
            raise SystemExit(f"{report.rows_skipped} of {report.rows} rows were not trained")
        return {
            "seconds": {
                "step": published - began,
                "sample": sampled - began,
                "train": trained - sampled,
                "publish": published - trained,
            },
            "tokens": {"sample": computed, "train": report.forward_tokens},
            "cores": (time.process_time() - used) / (published - began),
        }

    async def _sample(self, groups: list[dict[str, Any]]) -> list[TrainingSample]:
        prompts = [group["ids"] for group in groups for _ in range(self._task["group_size"])]
        params = SamplingParams(temperature=1.0, max_tokens=self._task["new"])  # no stop ids: exactly so many
        base = self._version.step * len(prompts)
        calls = [self._engine.sample(ids, params, self._version, base + row) for row, ids in enumerate(prompts)]
        completions = await asyncio.gather(*calls)
        return [
            self._row(ids, completion, f"{base + row}")
            for row, (ids, completion) in enumerate(zip(prompts, completions, strict=True))
        ]

    def _row(self, prompt: list[int], completion: Completion, name: str) -> TrainingSample:
        ids = [*prompt, *completion.ids]
        return TrainingSample(
            token_ids=np.asarray(ids, dtype=np.int64),
            mask=np.arange(len(ids)) >= len(prompt),
            logprobs=np.asarray([0.0] * len(prompt) + list(completion.logprobs), dtype=np.float32),
            temperature=1.0,
            version=self._version,
            adapter=self._version.adapter,
            rollout_id=name,
        )

    async def _publish(self) -> None:
        self._version = PolicyVersion("default", self._version.step + 1)
        with tempfile.TemporaryDirectory(prefix="art-adapter-") as place:
            directory = Path(place) / "adapter"
            checkpoint.save_adapter(directory, self._model, chat_template=self._template)
            await self._engine.load(self._version, directory)


def main() -> None:
    parent = Parent()
    task = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    side = Side(task)
    parent.answer(threads=torch.get_num_threads())
    for groups in task["steps"]:
        if not parent.wait():
            break
        parent.answer(**asyncio.run(side.step(groups)))


if __name__ == "__main__":
    main()
