"""What sampling costs when every completion must have the same bits whatever its company; as JSON.

    python benchmarks/deterministic.py

Groups of siblings, prompts with a common beginning, all asked for at once: sampled tokens a second of the engine as it is
and of the deterministic one, prompts included, one after the other in each repeat.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path

from transformers import PreTrainedModel

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from art_core.inference.protocol import SamplingParams
from art_core.inference.transformers_engine import TransformersEngine
from art_core.models.load import load_model
from benchmarks.common import machine, print_json, spread


def main() -> None:
    arguments = _arguments()
    about = machine()
    model = load_model(arguments.model).model
    rates: dict[str, list[float]] = {"as it is": [], "deterministic": []}
    for _ in range(arguments.repeat):
        for name, found in rates.items():
            found.append(asyncio.run(_rate(model, arguments, deterministic=name == "deterministic")))
    print_json(
        {
            "schema": 1,
            "sampled tokens per second": {name: spread(found) for name, found in rates.items()},
            "settings": vars(arguments),
            "machine": about,
        }
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare the two ways of sampling.")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--groups", type=int, default=6)
    parser.add_argument("--siblings", type=int, default=8)
    parser.add_argument("--common", type=int, default=256, help="tokens that all prompts begin with")
    parser.add_argument("--own", type=int, default=32, help="tokens of a prompt's own")
    parser.add_argument("--tokens", type=int, default=32, help="sampled tokens of a completion")
    parser.add_argument("--repeat", type=int, default=3)
    return parser.parse_args()


async def _rate(model: PreTrainedModel, arguments: argparse.Namespace, *, deterministic: bool) -> float:
    engine = TransformersEngine(model, deterministic=deterministic)
    params = SamplingParams(max_tokens=arguments.tokens)
    await engine.sample([1, 2, 3], params, None, 0)
    common = [(7 * number) % 1000 + 10 for number in range(arguments.common)]
    prompts = [
        [*common, *((11 * number + group) % 1000 + 10 for number in range(arguments.own))]
        for group in range(arguments.groups)
        for _ in range(arguments.siblings)
    ]
    began = time.monotonic()
    drawn = await asyncio.gather(*(engine.sample(p, params, None, key) for key, p in enumerate(prompts)))
    seconds = time.monotonic() - began
    await engine.close()
    return sum(len(completion.ids) for completion in drawn) / seconds


if __name__ == "__main__":
    main()
