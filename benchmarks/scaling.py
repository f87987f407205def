"""Time and memory of a training step against prompt length, group size and turns, one at a time; as JSON.

    python benchmarks/scaling.py [--precision bfloat16] [--repeat 3]
    python benchmarks/scaling.py --quick      (a tiny random model and few points: seconds, and figures that mean nothing)

A point is one group: a prompt, and siblings that each reply in one or more turns, with the answer of a tool between them. A
trajectory of many turns is one row, in which only the replies are trained. Every point is a process of its own, so that its
peak memory is its own; one step is not counted, then the median of ``--repeat``.

``row_tokens`` is what would go through the model were each row computed whole; ``turn_tokens`` were each turn a row of its
own, with all before it as its prompt. ``gflop_per_trained_token`` is the arithmetic of the step (see ``flops.py``), and
``attention`` the part of it that grows with the length of what is attended to: the time of a trained token follows the
former. ``cores_used`` is processor time over time: well below the threads, other programs were running.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from art_core.models.config import LoraConfig
from art_core.models.load import load_model
from art_core.models.lora import attach
from art_core.models.probe import choose_precision
from art_core.training.trainer import GrpoTrainer, TrainingConfig
from art_core.trajectory.graph import PolicyVersion
from art_core.trajectory.samples import TrainingSample
from benchmarks.common import machine, print_json, spread
from benchmarks.flops import Forward, Shape, group
from benchmarks.worker import peak_rss_gb
from tests.tiny import save_tiny

FACTORS = {"prompt": (128, 512, 1024, 2048), "siblings": (2, 8, 16, 32), "turns": (2, 4, 8, 16)}
QUICK_FACTORS = {"prompt": (96,), "siblings": (8,), "turns": (4,)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The shape of one group of rows; lengths in tokens."""

    prompt: int = 256
    siblings: int = 4
    turns: int = 1
    reply: int = 32
    """Trained tokens of a turn."""
    tool: int = 16
    """Untrained tokens between two turns."""

    @property
    def own(self) -> int:
        """Tokens of a row after its prompt."""
        return self.turns * self.reply + (self.turns - 1) * self.tool

    @property
    def trained(self) -> int:
        """Trained tokens of the group."""
        return self.siblings * self.turns * self.reply

    @property
    def turn_tokens(self) -> int:
        """Tokens of the group were every turn a row."""
        ends = [self.prompt + (turn + 1) * self.reply + turn * self.tool - 1 for turn in range(self.turns)]
        return self.siblings * sum(ends)

    @property
    def work(self) -> Forward:
        """What a step has to compute; siblings share the prediction that ends their prompt."""
        every = group(self.prompt, self.own, self.siblings, shared=True)
        return replace(every, predictions=self.trained - self.siblings + 1)

    def rows(self) -> list[TrainingSample]:
        """The siblings' rows, of random ids."""
        rng = np.random.default_rng(0)
        prompt = rng.integers(3, 259, self.prompt)
        turn = [*[True] * self.reply, *[False] * self.tool]
        mask = np.asarray([*[False] * self.prompt, *(turn * self.turns)[: self.own]])
        return [
            TrainingSample(
                token_ids=np.concatenate([prompt, rng.integers(3, 259, self.own)]),
                mask=mask,
                logprobs=np.where(mask, -10.0, 0.0).astype(np.float32),
                temperature=1.0,
                version=PolicyVersion("default", 0),
                adapter="default",
                rollout_id=str(sibling),
            )
            for sibling in range(self.siblings)
        ]


def main() -> None:
    arguments = _arguments()
    if arguments.point is not None:
        print(json.dumps(_measure(arguments, Point(**json.loads(arguments.point)))))
        return
    with tempfile.TemporaryDirectory(prefix="scaling-") as folder:
        base = Point()
        if arguments.quick:
            base = Point(prompt=48, reply=8, tool=4)
            arguments.model = str(save_tiny(Path(folder) / "model"))
        arguments.precision = choose_precision(arguments.precision)
        figures = {}
        for name, point in _points(base, QUICK_FACTORS if arguments.quick else FACTORS):
            print(name, file=sys.stderr, flush=True)
            figures[name] = _in_a_child(arguments, point)
    print_json(
        {
            "schema": 1,
            "points": figures,
            "settings": {name: value for name, value in vars(arguments).items() if name != "point"},
            "machine": machine(),
        }
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time a training step of rows of many shapes.")
    parser.add_argument("--model", default="smollm2-135m", help="known model or directory")
    parser.add_argument("--precision", default="auto", help="auto, float32 or bfloat16")
    parser.add_argument("--repeat", type=int, default=2, help="counted steps of a point")
    parser.add_argument("--quick", action="store_true", help="a tiny random model and few points, to try the script")
    parser.add_argument("--point", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.repeat < 1:
        parser.error(f"--repeat must be at least 1, got {arguments.repeat}")
    return arguments


def _points(base: Point, factors: dict[str, tuple[int, ...]]) -> Iterator[tuple[str, Point]]:
    yield "base", base
    for factor, values in factors.items():
        for value in values:
            yield f"{factor} {value}", replace(base, **{factor: value})


def _in_a_child(arguments: argparse.Namespace, point: Point) -> dict[str, Any]:
    options = ["--model", arguments.model, "--precision", arguments.precision, "--repeat", str(arguments.repeat)]
    command = [sys.executable, __file__, *options, "--point", json.dumps(asdict(point))]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the point {point} failed with exit code {done.returncode}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def _measure(arguments: argparse.Namespace, point: Point) -> dict[str, Any]:
    model = attach(load_model(arguments.model).model, LoraConfig())
    shape, loaded = Shape.of(model), peak_rss_gb()
    trainer = GrpoTrainer(model, TrainingConfig(learning_rate=1e-9), precision=choose_precision(arguments.precision))
    rows = point.rows()
    advantages = [1.0 if number % 2 else -1.0 for number in range(len(rows))]
    trainer.step(rows, advantages)
    began, used = time.perf_counter(), time.process_time()
    reports = [trainer.step(rows, advantages) for _ in range(arguments.repeat)]
    cores = (time.process_time() - used) / (time.perf_counter() - began)
    seconds = spread([report.seconds for report in reports])
    work, trained = point.work, reports[0].tokens
    return {
        **asdict(point),
        "seconds": seconds,
        "seconds_per_trained_token": round(seconds["median"] / trained, 5),
        "trained_tokens": trained,
        "forward_tokens": reports[0].forward_tokens,
        "row_tokens": reports[0].row_tokens,
        "turn_tokens": point.turn_tokens,
        "gflop_per_trained_token": round(shape.training(work) / trained / 1e9, 4),
        "attention": round(shape.attending(work) / shape.training(work), 3),
        "gflops": round(shape.training(work) / seconds["median"] / 1e9, 1),
        "cores_used": round(cores, 2),
        "peak_rss_gb": peak_rss_gb(),
        "peak_rss_gb_loaded": loaded,
    }


if __name__ == "__main__":
    main()
