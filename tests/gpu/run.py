"""What must hold on an accelerator, in one short run: ``python tests/gpu/run.py [--json]``.

Tiny random models of each family sample and train on the best device torch finds; their numbers are compared with a
plain forward pass on the same device. Prints what was checked; the exit code is 0 only if everything agrees. It runs on
a CPU too, where it shows that the script itself works.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from art_core.inference.protocol import SamplingParams
from art_core.inference.transformers_engine import TransformersEngine
from art_core.models.config import LoraConfig
from art_core.models.lora import attach
from art_core.training.trainer import GrpoTrainer
from art_core.trajectory.graph import PolicyVersion
from art_core.trajectory.samples import TrainingSample
from tests.tiny import FAMILIES, tiny_model

TOLERANCE = 2e-3
PROMPT = [(7 * i) % 290 for i in range(60)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object only")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = False
    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    record = {"device": name, "torch": torch.__version__, "families": {}, "passed": True}
    for family in FAMILIES:
        found = check(family, device)
        record["families"][family] = found
        record["passed"] &= found["passed"]
        if not options.json:
            print(f"{family}: {found}", flush=True)
    if options.json:
        print(json.dumps(record))
    return 0 if record["passed"] else 1


def check(family: str, device: str) -> dict[str, float | bool]:
    """Largest differences in nats: sampler and trainer against a plain forward, and whether a step learns."""
    began = time.monotonic()
    model = tiny_model(family).to(device)
    completions = asyncio.run(sample(model))
    plain = [reference(model, completion.ids) for completion in completions]
    sampler_gap = max(gap(completion.logprobs, values) for completion, values in zip(completions, plain, strict=True))
    trainer = GrpoTrainer(attach(model, LoraConfig(rank=4)))
    rows = [row(completion) for completion in completions]
    fresh = trainer.logprobs(rows)
    trainer_gap = max(gap(f[r.mask], v) for f, r, v in zip(fresh, rows, plain, strict=True))
    report = trainer.step(rows, [1.0, -1.0] * (len(rows) // 2))
    return {
        "sampler_gap": sampler_gap,
        "trainer_gap": trainer_gap,
        "grad_norm": report.grad_norm,
        "seconds": round(time.monotonic() - began, 2),
        "passed": max(sampler_gap, trainer_gap) < TOLERANCE and report.updated and report.grad_norm > 0,
    }


async def sample(model: torch.nn.Module) -> list:
    engine = TransformersEngine(model)
    params = SamplingParams(max_tokens=24)
    try:
        return await asyncio.gather(*(engine.sample(PROMPT, params, None, key) for key in range(8)))
    finally:
        await engine.close()


def reference(model: torch.nn.Module, ids: tuple[int, ...]) -> list[float]:
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[*PROMPT, *ids]], device=model.device)).logits[0].float()
    rows = torch.log_softmax(logits[len(PROMPT) - 1 : -1], dim=-1)
    return rows[torch.arange(len(ids)), torch.tensor(ids, device=rows.device)].tolist()


def row(completion) -> TrainingSample:
    length, new = len(PROMPT) + len(completion.ids), len(completion.ids)
    mask = torch.zeros(length, dtype=torch.bool)
    mask[-new:] = True
    logprobs = torch.zeros(length)
    logprobs[-new:] = torch.tensor(completion.logprobs)
    return TrainingSample(
        token_ids=torch.tensor([*PROMPT, *completion.ids]).numpy(),
        mask=mask.numpy(),
        logprobs=logprobs.numpy(),
        temperature=1.0,
        version=PolicyVersion("default", 0),
        adapter="default",
        rollout_id="r",
    )


def gap(left, right) -> float:
    return max(abs(float(a) - float(b)) for a, b in zip(left, right, strict=True))


if __name__ == "__main__":
    raise SystemExit(main())
