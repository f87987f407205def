"""Time of sampling with packed weights (see ``models.packed``) and with plain ones; as JSON.

    python benchmarks/sampling.py [--precision bfloat16] [--repeat 5]

Groups of siblings that share a prompt of random ids, no reply ends early. Both sides take the same weights, prompts, keys and
threads, in turns, after a round of each that is not counted. ``prefill`` ends with the first token of every row,
``decode`` is the rest.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from art_core.inference.protocol import SamplingParams
from art_core.models.attention import use_segment_attention
from art_core.models.compute import COMPUTE
from art_core.models.decoding import DecodeBatch, Row
from art_core.models.fold import FoldedModel
from art_core.models.load import load_model
from art_core.models.packed import can_pack
from art_core.models.probe import PRECISIONS, choose_precision
from benchmarks.common import machine, print_json, spread

SIDES = {"packed": True, "plain": False}


def main() -> None:
    arguments = _arguments()
    precision = choose_precision(arguments.precision)
    dtype = PRECISIONS[precision]
    if not can_pack("cpu", dtype):
        raise SystemExit(f"this processor or this build of torch has no packed products in {precision}")
    base = load_model(arguments.model).model
    batches = {name: COMPUTE.run(_batch, base, dtype, packed, arguments) for name, packed in SIDES.items()}
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in SIDES}
    for number in range(arguments.repeat + 1):
        for name, batch in batches.items():
            rounds[name].append(COMPUTE.run(_round, batch, number, arguments))
    seconds = {name: {phase: spread([one[phase] for one in of[1:]]) for phase in of[0]} for name, of in rounds.items()}
    print_json(
        {
            "schema": 1,
            "seconds": seconds,
            "ratio": {
                phase: round(seconds["plain"][phase]["median"] / seconds["packed"][phase]["median"], 2)
                for phase in seconds["plain"]
            },
            "settings": {**vars(arguments), "precision": precision},
            "machine": machine(),
        }
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time sampling with packed and with plain weights.")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--precision", default="auto", help="auto, float32 or bfloat16")
    parser.add_argument("--repeat", type=int, default=5, help="counted rounds of each side")
    parser.add_argument("--groups", type=int, default=4)
    parser.add_argument("--siblings", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=223, help="tokens of every prompt")
    parser.add_argument("--new", type=int, default=48, help="tokens of every reply")
    return parser.parse_args()


def _batch(base: Any, dtype: Any, packed: bool, arguments: argparse.Namespace) -> DecodeBatch:
    model = FoldedModel(base, dtype=dtype, packed=packed).model
    use_segment_attention(model)
    return DecodeBatch(model, max_rows=arguments.groups * arguments.siblings)


def _round(batch: DecodeBatch, number: int, arguments: argparse.Namespace) -> dict[str, float]:
    """Seconds of one prefill and of the decoding after it."""
    rng = np.random.default_rng(number)
    params = SamplingParams(temperature=1.0, max_tokens=arguments.new)
    prompts = [tuple(map(int, rng.integers(100, 40_000, arguments.prompt))) for _ in range(arguments.groups)]
    rows = [
        Row(prompt, params, key) for key, prompt in enumerate(p for p in prompts for _ in range(arguments.siblings))
    ]
    batch.weights_changed()
    began = time.perf_counter()
    batch.admit(rows)
    prefilled = time.perf_counter()
    while batch.retire() == []:
        batch.step()
    return {"prefill": prefilled - began, "decode": time.perf_counter() - prefilled}


if __name__ == "__main__":
    main()
