"""How near the gradient of a real step is to the exact one: in half precision, and clipped in other ways; as JSON.

    python benchmarks/gradient.py runs/NAME [--step N]

Takes the rollouts of step N of a finished run and the adapter before it (default: the last step that has one). Exact is
float32 with every row computed whole, nothing clipped. "clipped against the sampler" is the loss with the sampler's
logprobs as the old ones, as in plain PPO.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from art_core.loop.batch import Batch, make_batch
from art_core.loop.rundir import RunDir
from art_core.models.compute import COMPUTE
from art_core.models.config import LoraConfig, Precision
from art_core.models.load import load_model
from art_core.models.lora import attach
from art_core.training import checkpoint
from art_core.training.config import TrainingConfig
from art_core.training.logprobs import SplitModel
from art_core.training.step import accumulate, plan
from art_core.trajectory import store
from art_core.trajectory.trajectory import Trajectory, TrajectoryGroup
from benchmarks.common import machine, print_json


def main() -> None:
    arguments = _arguments()
    run = RunDir.open(Path(arguments.run))
    step = arguments.step or _last_step(run)
    batch = _batch(run, step, arguments.trained_per_group)
    model = attach(load_model(arguments.model).model, LoraConfig(rank=arguments.rank, alpha=arguments.alpha))
    checkpoint.load_adapter(run.checkpoint(step - 1), model)
    exact, _ = _gradient(model, batch, "float32", min_shared_tokens=10**9)
    figures: dict[str, Any] = {}
    for precision in ("float32", "bfloat16"):
        for name, clipped in (("as trained", False), ("clipped against the sampler", True)):
            gradient, kl = _gradient(model, batch, precision, clipped=clipped)
            cosine = torch.nn.functional.cosine_similarity(gradient, exact, dim=0).item()
            figures[f"{name}, {precision}"] = {
                "cosine": round(cosine, 4),
                "length": round((gradient.norm() / exact.norm()).item(), 4),
                "kl_behaviour": round(kl, 5),
            }
    print_json(
        {
            "schema": 1,
            "step": step,
            "rows": len(batch.samples),
            "against the exact gradient": figures,
            "settings": vars(arguments),
            "machine": machine(),
        }
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare gradients of one step of a run.")
    parser.add_argument("run", help="run directory")
    parser.add_argument("--step", type=int, help="default: the last whose adapter before it was kept")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--trained-per-group", type=int, default=4)
    parser.add_argument("--rank", type=int, default=LoraConfig().rank)
    parser.add_argument("--alpha", type=float, default=LoraConfig().alpha)
    return parser.parse_args()


def _last_step(run: RunDir) -> int:
    step = 1
    while run.journal(step + 1).is_file():
        step += 1
    return step


def _batch(run: RunDir, step: int, trained_per_group: int) -> Batch:
    by_group: dict[str, list[Trajectory]] = {}
    for trajectory in store.read(run.journal(step)):
        by_group.setdefault(trajectory.group_id, []).append(trajectory)
    groups = [
        TrajectoryGroup(scenario=siblings[0].scenario, trajectories=siblings, group_id=name)
        for name, siblings in by_group.items()
    ]
    return make_batch(groups, trained_per_group=trained_per_group, scale="none")


def _gradient(
    model: torch.nn.Module, batch: Batch, precision: Precision, *, clipped: bool = False, **options: Any
) -> tuple[torch.Tensor, float]:
    """The gradient end to end, and KL(sampler || trainer) in nats."""
    config = TrainingConfig(**options)
    split = COMPUTE.run(SplitModel, model, precision=precision)
    work = plan(batch.samples, batch.advantages, model=split, config=config)
    if clipped:
        work.old.copy_(torch.cat([torch.from_numpy(sample.logprobs) for sample in work.samples]))
    model.zero_grad()
    _, stats = COMPUTE.run(accumulate, work, split, config)
    gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    return gradient.double(), stats.kl / stats.tokens


if __name__ == "__main__":
    main()
