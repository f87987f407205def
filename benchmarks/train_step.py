"""Time of a training step with the shared prefixes computed once, and with every row computed whole; as JSON.

    python benchmarks/train_step.py [--precision bfloat16] [--repeat 5]

Rows of random ids in the shape of the demo's: a system prompt with tools, a question per group, a short reply per
sibling. Both sides take the same rows, weights and threads, in turns, after a step of each that is not counted.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from art_core.models.config import LoraConfig
from art_core.models.load import load_model
from art_core.models.lora import attach
from art_core.models.probe import choose_precision
from art_core.training.trainer import GrpoTrainer, StepReport, TrainingConfig
from art_core.trajectory.graph import PolicyVersion
from art_core.trajectory.samples import TrainingSample
from benchmarks.common import machine, print_json, spread
from benchmarks.worker import peak_rss_gb

SIDES = {"shared": {}, "whole rows": {"min_shared_tokens": 10**9}}


def main() -> None:
    arguments = _arguments()
    precision = choose_precision(arguments.precision)
    loaded = load_model(arguments.model)
    model = attach(loaded.model, LoraConfig())
    rows = _rows(arguments)
    advantages = [1.0 if number % 2 else -1.0 for number in range(len(rows))]
    trainers = {
        name: GrpoTrainer(model, TrainingConfig(learning_rate=1e-9, **options), precision=precision)
        for name, options in SIDES.items()
    }
    reports: dict[str, list[StepReport]] = {name: [] for name in SIDES}
    for _ in range(arguments.repeat + 1):
        for name, trainer in trainers.items():
            reports[name].append(trainer.step(rows, advantages))
    seconds = {name: spread([report.seconds for report in of[1:]]) for name, of in reports.items()}
    print_json(
        {
            "schema": 1,
            "seconds": seconds,
            "ratio": round(seconds["whole rows"]["median"] / seconds["shared"]["median"], 2),
            "forward_tokens": {name: of[0].forward_tokens for name, of in reports.items()},
            "peak_rss_gb": peak_rss_gb(),
            "settings": {**vars(arguments), "precision": precision},
            "machine": machine(),
        }
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time a training step with and without shared prefixes.")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--precision", default="auto", help="auto, float32 or bfloat16")
    parser.add_argument("--repeat", type=int, default=5, help="counted steps of each side")
    parser.add_argument("--groups", type=int, default=6)
    parser.add_argument("--siblings", type=int, default=4)
    parser.add_argument("--system", type=int, default=640, help="tokens common to all rows")
    parser.add_argument("--question", type=int, default=35, help="tokens common to a group")
    parser.add_argument("--reply", type=int, default=40, help="trained tokens of a row")
    return parser.parse_args()


def _rows(arguments: argparse.Namespace) -> list[TrainingSample]:
    rng = np.random.default_rng(0)

    def draw(count: int) -> list[int]:
        return [int(token) for token in rng.integers(100, 40_000, count)]

    system = draw(arguments.system)
    rows: list[TrainingSample] = []
    for group in range(arguments.groups):
        prompt = system + draw(arguments.question)
        for sibling in range(arguments.siblings):
            rows.append(_row(prompt + draw(arguments.reply), len(prompt), f"{group}-{sibling}"))
    return rows


def _row(ids: list[int], trained_from: int, name: str) -> TrainingSample:
    mask = np.arange(len(ids)) >= trained_from
    options: dict[str, Any] = {"temperature": 1.0, "version": PolicyVersion("default", 0), "adapter": "default"}
    return TrainingSample(
        token_ids=np.asarray(ids, dtype=np.int64),
        mask=mask,
        logprobs=np.where(mask, -10.0, 0.0).astype(np.float32),
        rollout_id=name,
        **options,
    )


if __name__ == "__main__":
    main()
