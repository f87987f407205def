"""Loss and gradient of a training step equal TRL 1.16's, on the same weights, rows, advantages and old logprobs.

TRL runs in an environment of its own and is called as a program: ``GRPOTrainer.compute_loss`` on tensors given to it, in
two halves as its gradient accumulation would; our side packs the same rows into a tree. All in float32.

What both sides are set to, where conventions differ:

- One step is the whole batch. ``dapo`` and ``cispo`` divide by all trained tokens of the step, in TRL ``num_items_in_batch``;
  ``grpo`` and ``gspo`` take the mean over rollouts of token means; ``dr_grpo`` divides by rollouts times a constant, in TRL
  ``max_completion_length``.
- TRL bounds CISPO's ratio by ``epsilon_high`` itself and only from above: ours is ``clip_high = epsilon_high - 1`` with
  ``clip_low = 1``.
- ``gspo`` is TRL's ``grpo`` with ratios of whole sequences.
- The divergence is ``k3``. TRL multiplies it by the token's ratio unless ``use_bias_correction_kl`` is off, as here.
- TRL weighs a token by the difference of sampler and trainer only with vLLM, and there by a ratio it was given: it is given
  ours, ``min(exp(old - behaviour), 2)``, in the rows of ``another sampler``. In all others the behaviour logprobs are the old ones.

Left out, because the two are not the same by definition: ``bnpo`` (TRL normalises each micro-batch by itself, so it depends on
how a batch is cut), ``reinforce`` (TRL has no loss without a ratio), the estimators ``k1`` and ``k2`` (TRL has neither), and
TRL's ``sapo``, ``luspo`` and ``vespo`` (not ours). ``gspo`` is left out of ``another sampler``: with unequal weights in a rollout
TRL spreads its gradient evenly over the tokens, and ours, as GSPO-token, by their weights.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from peft import PeftModel
from safetensors.torch import load_file, save_file

from art_core.models.compute import COMPUTE
from art_core.training.advantages import step_advantages
from art_core.training.config import TrainingConfig
from art_core.training.logprobs import SplitModel
from art_core.training.loss import TokenStats
from art_core.training.step import accumulate, plan, token_logprobs
from art_core.training.trainer import GrpoTrainer
from art_core.trajectory.samples import TrainingSample
from benchmarks.trl_environment import MISSING, PYTHON, ready
from tests.tiny import VOCAB, tiny_tokenizer
from tests.unit.training.tiny import build, lora, row

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not ready(), reason=MISSING)]

TOLERANCE = 1e-4
SIBLINGS = 4
CONSTANT = 40

OURS: dict[str, dict[str, Any]] = {
    "grpo": {"loss": "grpo"},
    "dr_grpo": {"loss": "dr_grpo", "constant_length": CONSTANT},
    "dapo": {"loss": "dapo"},
    "gspo": {"loss": "gspo"},
    "cispo": {"loss": "cispo"},
}
TRL: dict[str, dict[str, Any]] = {
    "grpo": {"loss_type": "grpo"},
    "dr_grpo": {"loss_type": "dr_grpo", "max_completion_length": CONSTANT},
    "dapo": {"loss_type": "dapo"},
    "gspo": {"loss_type": "grpo", "importance_sampling_level": "sequence"},
    "cispo": {"loss_type": "cispo"},
}
BOUNDS: dict[str, dict[str, tuple[float, float]]] = {
    name: {"clip": (0.2, 0.2), "clip-higher": (0.2, 0.28)} for name in ("grpo", "dr_grpo", "dapo")
}
BOUNDS["gspo"] = {"clip": (0.005, 0.005), "clip-higher": (0.005, 0.08)}
BOUNDS["cispo"] = {"clip": (1.0, 0.2), "clip-higher": (1.0, 0.28)}
KL = {"no KL": 0.0, "KL": 0.1}
TEMPERATURES = {"one turn": 1.0, "tool tokens": 0.7, "another sampler": 0.7}

CASES = [
    *product(OURS, ("clip", "clip-higher"), KL, ("one turn", "tool tokens")),
    *product(("grpo", "dr_grpo", "dapo", "cispo"), ("clip-higher",), KL, ("another sampler",)),
]


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Two groups of siblings with prompts and completions of unequal lengths."""

    samples: list[TrainingSample]
    old: dict[str, NDArray[np.float32]]
    """By rollout the trainer's logprobs before the step; the samples hold the sampler's."""
    advantages: list[float]
    prompts: list[int]
    """Tokens of each row's prompt."""
    temperature: float


@dataclass(frozen=True, kw_only=True)
class Setting:
    folder: Path
    model: PeftModel
    rows: dict[str, Rows]


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    """TRL's answers to all cases, computed by one process."""
    folder = tmp_path_factory.mktemp("trl")
    model = lora()
    build().save_pretrained(folder / "model")
    tiny_tokenizer().save_pretrained(folder / "model")
    model.save_pretrained(folder / "adapter")
    rows = {name: make_rows(model, name) for name in TEMPERATURES}
    for name, of in rows.items():
        save_file(padded(of), folder / f"{name}.safetensors")
    jobs = [
        {
            "name": "-".join(case),
            "batch": case[3],
            "weighed": case[3] == "another sampler",
            "options": trl_options(*case),
        }
        for case in CASES
    ]
    (folder / "jobs.json").write_text(json.dumps(jobs), encoding="utf-8")
    worker = Path(__file__).with_name("worker.py")
    done = subprocess.run(
        [PYTHON, worker, folder], capture_output=True, text=True, timeout=900, check=False, cwd=folder
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return Setting(folder=folder, model=model, rows=rows)


@pytest.mark.parametrize(("variant", "bounds", "kl", "rows"), CASES)
def test_loss_and_gradient_equal_those_of_trl(setting: Setting, variant: str, bounds: str, kl: str, rows: str) -> None:
    theirs = load_file(setting.folder / f"{variant}-{bounds}-{kl}-{rows}.safetensors")
    loss, gradient, stats = ours(setting.model, setting.rows[rows], config(variant, bounds, kl))
    assert 0 < stats.clipped < stats.tokens
    assert loss == pytest.approx(float(theirs.pop("loss")), rel=TOLERANCE)
    assert gradient.keys() == theirs.keys()
    gap = sum(float((gradient[name] - theirs[name]).double().square().sum()) for name in theirs)
    size = sum(float(tensor.double().square().sum()) for tensor in theirs.values())
    assert (gap / size) ** 0.5 <= TOLERANCE


def test_the_rows_of_another_sampler_are_weighed_and_some_of_them_at_the_cap(setting: Setting) -> None:
    weights = importance(setting.rows["another sampler"])
    trained = np.concatenate([w[s.mask] for w, s in zip(weights, setting.rows["another sampler"].samples, strict=True)])
    assert 0 < (trained == 2.0).sum() < (trained > 1.0).sum() < len(trained)
    assert {float(w.min()) for w in importance(setting.rows["tool tokens"])} == {1.0}


@pytest.mark.parametrize("variant", OURS)
def test_the_cases_tell_higher_upper_bounds_apart(setting: Setting, variant: str) -> None:
    clipped = [
        ours(setting.model, setting.rows["one turn"], config(variant, bounds, "no KL"))[2].clipped
        for bounds in ("clip", "clip-higher")
    ]
    assert clipped[0] > clipped[1]


def config(variant: str, bounds: str, kl: str) -> TrainingConfig:
    low, high = BOUNDS[variant][bounds]
    held = {"kl_coefficient": KL[kl], "kl_estimator": "k3"} if KL[kl] else {}
    return TrainingConfig(clip_low=low, clip_high=high, passes=2, **OURS[variant], **held)  # bounds need a second pass


def trl_options(variant: str, bounds: str, kl: str, rows: str) -> dict[str, Any]:
    low, high = BOUNDS[variant][bounds]
    return {
        "epsilon": low,
        "epsilon_high": 1.0 + high if variant == "cispo" else high,
        "beta": KL[kl],
        "use_bias_correction_kl": False,
        "temperature": TEMPERATURES[rows],
        **TRL[variant],
    }


def make_rows(model: PeftModel, name: str) -> Rows:
    """Rows whose old logprobs are the model's own moved at random, so that many ratios are out of bounds; those of another
    sampler are moved on from there."""
    tools, temperature = name != "one turn", TEMPERATURES[name]
    rng, sampler = np.random.default_rng(3), np.random.default_rng(4)

    def draw(low: int, high: int) -> list[int]:
        return rng.integers(0, VOCAB, int(rng.integers(low, high))).tolist()

    common = draw(18, 19)
    fresh, prompts = [], []
    for group in range(2):
        prompt = common + draw(3 + 6 * group, 4 + 6 * group)
        for sibling in range(SIBLINGS):
            first, tool, last = draw(3, 14), draw(2, 7) if tools else [], draw(2, 7) if tools else []
            trained = [*range(len(first)), *range(len(first) + len(tool), len(first) + len(tool) + len(last))]
            where = [len(prompt) + place for place in trained]
            fresh.append(
                row(prompt + first + tool + last, where, temperature=temperature, rollout_id=f"{group}-{sibling}")
            )
            prompts.append(len(prompt))
    old = {}
    for sample, own in zip(fresh, GrpoTrainer(model).logprobs(fresh), strict=True):
        moved = np.minimum(own + rng.normal(0.0, 0.3, len(own)), 0.0)
        sample.logprobs[:] = np.where(sample.mask, moved, 0.0)
        old[sample.rollout_id] = sample.logprobs.copy()
        if name == "another sampler":
            seen = np.minimum(sample.logprobs + sampler.normal(0.0, 0.6, len(own)), 0.0)
            sample.logprobs[:] = np.where(sample.mask, seen, 0.0)
    groups = step_advantages(rng.normal(size=(2, SIBLINGS)).tolist())
    return Rows(
        samples=fresh,
        old=old,
        advantages=[advantage for group in groups for advantage in group if advantage is not None],
        prompts=prompts,
        temperature=temperature,
    )


def importance(rows: Rows) -> list[NDArray[np.float32]]:
    """Per row what its tokens are weighed by; 1 where nothing is trained."""
    return [
        np.minimum(np.exp(rows.old[sample.rollout_id] - sample.logprobs), np.float32(2.0)) for sample in rows.samples
    ]


def padded(rows: Rows) -> dict[str, torch.Tensor]:
    """The rows as TRL takes them: prompts padded on the left, completions on the right."""
    widest = max(rows.prompts)
    longest = max(len(s.token_ids) - prompt for s, prompt in zip(rows.samples, rows.prompts, strict=True))
    shape = (len(rows.samples), widest + longest)
    ids, real, trained = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    old, weights = np.zeros(shape, dtype=np.float32), np.ones(shape, dtype=np.float32)
    for index, (sample, prompt, weight) in enumerate(zip(rows.samples, rows.prompts, importance(rows), strict=True)):
        place = slice(widest - prompt, widest - prompt + len(sample.token_ids))
        ids[index, place], real[index, place] = sample.token_ids, 1
        trained[index, place], old[index, place] = sample.mask, rows.old[sample.rollout_id]
        weights[index, place] = weight
    tensors = {
        "prompt_ids": ids[:, :widest],
        "prompt_mask": real[:, :widest],
        "completion_ids": ids[:, widest:],
        "completion_mask": real[:, widest:],
        "tool_mask": trained[:, widest:],
        "old_per_token_logps": old[:, widest:],
        "importance_sampling_ratio": weights[:, widest:],
        "advantages": np.asarray(rows.advantages, dtype=np.float32),
    }
    return {name: torch.from_numpy(np.ascontiguousarray(tensor)) for name, tensor in tensors.items()}


def ours(model: PeftModel, rows: Rows, config: TrainingConfig) -> tuple[float, dict[str, torch.Tensor], TokenStats]:
    """The loss, the gradient of each parameter and the token figures of one pass."""

    split = COMPUTE.run(SplitModel, model)

    def base(samples: Sequence[TrainingSample]) -> list[NDArray[np.float32]]:
        with model.disable_adapter():
            return COMPUTE.run(token_logprobs, samples, model=split, config=config)

    work = plan(
        rows.samples,
        rows.advantages,
        model=split,
        config=config,
        reference=base if config.kl_coefficient else None,
    )
    work.old.copy_(torch.cat([torch.from_numpy(rows.old[sample.rollout_id]) for sample in work.samples]))
    model.zero_grad()
    loss, stats = COMPUTE.run(accumulate, work, split, config)
    return loss, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}, stats
