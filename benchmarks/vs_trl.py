"""A step of GRPO here and in TRL on the same task, with how much of the processor each phase uses; as JSON.

    python -m benchmarks.trl_environment     (once: TRL in an environment of its own)
    python benchmarks/vs_trl.py [--precision bfloat16] [--steps 5]

Both sides take the same weights, prompts, rewards, LoRA, group size and token counts, and no reply ends early. Each is a
process of its own with all cores; they make steps in turns, so that only one computes at a time, after one step of each that
is not counted. TRL's is ``GRPOTrainer(use_cpu=True)`` without gradient checkpointing; its ``bf16`` is autocast over float32
weights, in training alone. Ours is the embedded engine and the trainer, the adapter published between the steps.

``step_ratio``, ``train_ratio`` and ``sample_ratio`` are TRL's seconds over ours, ``rss_ratio`` our peak memory over TRL's, of
medians. ``share_of_peak`` is the arithmetic of a phase (see ``flops.py``) over its median seconds and the best rate of square
matmuls in this precision: ``useful`` counts what the task needs, each prompt once, the same for both; ``computed`` what that
side did: TRL runs every row whole, and its adapter also while sampling. ``cores_used`` is processor time over time: where it
is well below the threads, other programs were running and no figure counts.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from art_core.models.config import LoraConfig
from art_core.models.load import load_tokenizer
from art_core.models.lora import attach
from art_core.models.probe import probe
from art_core.models.registry import resolve
from art_core.rendering.tokenizer import TransformersTokenizer
from benchmarks.common import machine, matmul_peak_gflops, print_json, spread
from benchmarks.flops import Shape, group
from benchmarks.trl_environment import MISSING, PYTHON, ready
from benchmarks.worker import Child

PHASES = ("sample", "train")
LEARNING_RATE = 1e-5


def main() -> None:
    arguments = _arguments()
    sides = ("trl", "ours") if arguments.side == "both" else (arguments.side,)
    if "trl" in sides and not ready():
        raise SystemExit(MISSING)
    peak = matmul_peak_gflops(arguments.precision)
    if peak < matmul_peak_gflops("float32"):
        raise SystemExit("this processor multiplies bfloat16 more slowly than float32; leave --precision out")
    task = _task(arguments)
    with tempfile.TemporaryDirectory(prefix="vs-trl-") as folder:
        file = Path(folder) / "task.json"
        file.write_text(json.dumps(task), encoding="utf-8")
        ready_lines, steps = _alternate(sides, file, arguments.steps)
    counted = {side: of[1:] for side, of in steps.items()}
    seconds = {
        side: {phase: spread([step["seconds"][phase] for step in of]) for phase in of[0]["seconds"]}
        for side, of in counted.items()
    }
    memory = {side: of[-1]["peak_rss_gb"] for side, of in counted.items()}
    print_json(
        {
            "schema": 1,
            **{f"{phase}_ratio": _ratio(seconds, phase) for phase in ("step", *PHASES)},
            "rss_ratio": round(memory["ours"] / memory["trl"], 2) if len(memory) > 1 else None,
            "seconds": seconds,
            "cores_used": {side: spread([step["cores"] for step in of]) for side, of in counted.items()},
            "peak_rss_gb": memory,
            "tokens_computed": {side: of[-1]["tokens"] for side, of in counted.items()},
            "share_of_peak": _shares(arguments, seconds, peak),
            "peak_gflops": peak,
            "settings": {**vars(arguments), "learning_rate": LEARNING_RATE},
            "sides": ready_lines,
            "machine": machine(),
        }
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare a step of GRPO with TRL's.")
    parser.add_argument("--model", default="smollm2-135m", help="known model or directory")
    parser.add_argument("--side", default="both", choices=["both", "ours", "trl"])
    parser.add_argument("--precision", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--steps", type=int, default=3, help="counted steps of each side")
    parser.add_argument("--groups", type=int, default=4, help="groups of an optimizer step")
    parser.add_argument("--group-size", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=223, help="tokens of every prompt")
    parser.add_argument("--new", type=int, default=48, help="tokens of every reply")
    parser.add_argument("--rank", type=int, default=LoraConfig().rank)
    parser.add_argument("--alpha", type=float, default=LoraConfig().alpha)
    parser.add_argument("--seed", type=int, default=0, help="of prompts and rewards")
    arguments = parser.parse_args()
    for name, least in (("steps", 1), ("groups", 1), ("group_size", 2), ("prompt", 1), ("new", 2)):
        if getattr(arguments, name) < least:
            parser.error(f"--{name.replace('_', '-')} must be at least {least}, got {getattr(arguments, name)}")
    return arguments


def _task(arguments: argparse.Namespace) -> dict[str, Any]:
    """What both sides are told: the prompts of every step as text and as ids, and the rewards of their replies."""
    rng = random.Random(arguments.seed)
    tokenizer = load_tokenizer(arguments.model)
    words = _words(tokenizer)

    def one() -> dict[str, Any]:
        text = tokenizer.decode(rng.choices(words, k=arguments.prompt))
        ids = tokenizer.encode(text)
        if len(ids) != arguments.prompt:
            raise SystemExit(f"{arguments.prompt} words became {len(ids)} tokens; this tokenizer joins or splits them")
        return {"prompt": text, "ids": ids, "rewards": [rng.random() for _ in range(arguments.group_size)]}

    return {
        "model": str(resolve(arguments.model)),
        "steps": [[one() for _ in range(arguments.groups)] for _ in range(arguments.steps + 1)],
        "learning_rate": LEARNING_RATE,
        **{name: getattr(arguments, name) for name in ("prompt", "new", "group_size", "precision", "rank", "alpha")},
    }


def _words(tokenizer: TransformersTokenizer) -> list[int]:
    """Ids of which any row stays the same through text and back: words that begin with a space, or else letters."""
    texts = {number: tokenizer.decode([number]) for number in range(tokenizer.vocab_size)}
    plain = {number: text for number, text in texts.items() if text.isascii() and text.strip(" ").isalpha()}
    begun = [number for number, text in plain.items() if text[0] == " " and text[1:].islower()]
    return begun or [number for number, text in plain.items() if len(text) == 1]


def _alternate(
    sides: tuple[str, ...], task: Path, steps: int
) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """One step of each side after the other, an uncounted one first; what each said when ready, and of each step."""
    here = Path(__file__).parent
    commands = {
        "trl": [PYTHON, here / "vs_trl_theirs.py", task],
        "ours": [sys.executable, here / "vs_trl_ours.py", task],
    }
    environment = {"OMP_NUM_THREADS": str(probe().threads), "HF_HUB_OFFLINE": "1"}
    done: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
    with ExitStack() as stack:
        said, children = {}, {}
        for side in sides:
            _say(f"loading {side}")
            children[side] = stack.enter_context(Child(commands[side], environment))
            said[side] = children[side].read()
        for number in range(steps + 1):
            for side, child in children.items():
                done[side].append(child.step())
                told = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in done[side][-1]["seconds"].items())
                _say(f"{f'step {number} of {steps}' if number else 'warm-up'}, {side}: {told}")
    return said, done


def _ratio(seconds: Mapping[str, Mapping[str, Mapping[str, float]]], phase: str) -> float | None:
    if len(seconds) < 2:
        return None
    return round(seconds["trl"][phase]["median"] / seconds["ours"][phase]["median"], 2)


def _shares(
    arguments: argparse.Namespace, seconds: Mapping[str, Mapping[str, Mapping[str, float]]], peak: float
) -> dict[str, dict[str, dict[str, float]]]:
    shape = _shape(arguments)
    once, whole = (
        group(arguments.prompt, arguments.new, arguments.group_size, shared=shared).times(arguments.groups)
        for shared in (True, False)
    )
    adapter = 2.0 * shape.adapter * whole.tokens
    useful = {"sample": shape.sampling(once), "train": shape.training(once)}
    computed = {"ours": useful, "trl": {"sample": shape.sampling(whole) + adapter, "train": shape.training(whole)}}
    return {
        name: {
            side: {phase: round(of[side][phase] / of_side[phase]["median"] / peak / 1e9, 3) for phase in PHASES}
            for side, of_side in seconds.items()
        }
        for name, of in (("useful", dict.fromkeys(seconds, useful)), ("computed", computed))
    }


def _shape(arguments: argparse.Namespace) -> Shape:
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(resolve(arguments.model)))
        return Shape.of(attach(model, LoraConfig(rank=arguments.rank, alpha=arguments.alpha)))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
