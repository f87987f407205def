"""A run directory made of invented but consistent data, and the toy tokenizer it was 'sampled' with."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Sequence
from pathlib import Path

from art_core.messages import Message, ToolCall, ToolSpec
from art_core.observe.ledger import Ledger
from art_core.observe.metrics import MetricsLog
from art_core.scenario import Scenario
from art_core.trajectory import store
from art_core.trajectory.graph import PolicyVersion, Span, Turn
from art_core.trajectory.trajectory import Reward, ToolEvent, Trajectory

TOOL = ToolSpec(
    name="convert_time",
    description="Convert a time of day between two timezones.",
    parameters={
        "type": "object",
        "properties": {"source_timezone": {}, "time": {}, "target_timezone": {}, "day": {}},
        "required": ["source_timezone", "time", "target_timezone"],
    },
)
PROMPT = """<|im_start|>system
You answer with one call of a tool.
# Tools
{"name": "convert_time", "parameters": {"source_timezone": "string", "time": "string", "target_timezone": "string"}}

Example
User: When it is 09:30 in Oslo, what time is it in Lima?
<tool_call>{"name": "convert_time", "arguments": {"source_timezone": "Europe/Oslo", "time": "09:30", "target_timezone": "America/Lima"}}</tool_call>
<|im_end|>
<|im_start|>user
%s<|im_end|>
<|im_start|>assistant
"""


class ToyTokenizer:
    """Pieces of up to five letters; every character outside of ASCII is its UTF-8 bytes, ids 0 to 255."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for piece in re.findall(r"<\|\w+\|>| ?[A-Za-z_]{1,5}|[^\x00-\x7f]| ?[^A-Za-z_]", text):
            if ord(piece[-1]) > 127:
                ids.extend(piece.encode())
                continue
            if piece not in self._pieces:
                self._pieces.append(piece)
            ids.append(256 + self._pieces.index(piece))
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        raw = b"".join(bytes([i]) if i < 256 else self._pieces[i - 256].encode() for i in ids)
        return raw.decode(errors="replace")


def rollout(
    tokenizer: ToyTokenizer,
    name: str,
    question: str,
    reply: str,
    *,
    reward: float | None = 1.0,
    greedy: bool = False,
    result: str = '{"time": "2025-01-01T14:00"}',
    error: str | None = None,
) -> Trajectory:
    """One rollout of two turns: a tool call in ``reply``, then an answer."""
    draw = random.Random(name)
    trajectory = Trajectory(scenario=Scenario(name, question, expected={"tool": "convert_time"}), rollout_id=name)
    for number, (added, text) in enumerate(
        [(PROMPT % question, reply), (f"<|im_end|>\n{result}\n", "Done – it is 14:00 ☕.")]
    ):
        ids = tokenizer.encode(text + "<|im_end|>")
        before = trajectory.graph.turns[-1].id if number else None
        call = ToolCall(id="c0", name="convert_time", arguments='{"time": "09:30"}')
        trajectory.graph.add(
            Turn(
                id=f"t{number}",
                parent=before,
                parent_len=trajectory.graph.path_len(before) if before else 0,
                context_ids=tuple(tokenizer.encode(added)),
                completion_ids=tuple(ids),
                logprobs=tuple(math.log(min(1.0, draw.betavariate(4, 1) + 1e-3)) for _ in ids),
                versions=(Span(0, PolicyVersion("default", 0)),),
                temperature=0.0 if greedy else 1.0,
                not_trainable="sampled greedily (temperature 0)" if greedy else None,
                messages=(Message(role="user", content=question),) if not number else (),
                reply=Message(role="assistant", content=text, tool_calls=() if number else (call,)),
                tools=(TOOL,),
            )
        )
        if not number:
            trajectory.events.append(
                ToolEvent(
                    turn="t0",
                    call_id="c0",
                    name="convert_time",
                    arguments={"time": "09:30"},
                    result=result,
                    error=error,
                )
            )
    trajectory.stop_reason = "finished"
    if reward is not None:
        trajectory.score(Reward(reward, reward == 1.0, {"format": 1.0, "values": reward}))
    return trajectory


def build_run(path: Path, *, steps: int = 12, lift: float = 0.5, tokenizer: ToyTokenizer | None = None) -> ToyTokenizer:
    """Write a finished run of ``steps`` steps whose success ends ``lift`` above where it began."""
    tokenizer = tokenizer or ToyTokenizer()
    path.mkdir(parents=True)
    (path / "run.toml").write_text(
        f'base_model = "smollm2-135m"\nsteps = {steps}\nseed = 0\n[rollout]\ngroup_size = 8\nscenarios_per_step = 4\n'
        '[training]\nlearning_rate = 0.0005\nclip_low = 0.2\n[lora]\nrank = 16\ntargets = "all-linear"\n'
    )
    total = _metrics(path, steps, lift)
    _evaluations(path, tokenizer, lift)
    for step in (1, steps):
        _group(path, tokenizer, step)
    measured = {"n": 60, "missing": 0, "measure": "success", "method": "wilson"}
    summary = {
        "base_model": "smollm2-135m",
        "steps": steps,
        "best_step": steps,
        "stop_reason": "steps",
        "stop_text": f"all {steps} steps are done",
        "before": {"reward": 0.08, "success": 0.033, "ci95": [0.009, 0.114], **measured},
        "after": {"reward": 0.08 + lift, "success": 0.033 + lift, "ci95": [lift, lift + 0.13], **measured},
        "gain": {
            "measure": "success",
            "difference": lift,
            "ci95": [lift - 0.13, lift + 0.12],
            "n": 60,
            "method": "newcombe-paired",
        },
        "ledger": total.to_dict(),
        "seconds": {"rollout": 300.0, "train": 160.0, "reload": 9.0, "checkpoint": 12.0},
    }
    (path / "summary.json").write_text(json.dumps(summary))
    return tokenizer


def _metrics(path: Path, steps: int, lift: float) -> Ledger:
    draw = random.Random(1)
    clock = iter(range(0, 100_000, 20))
    total = Ledger()
    with MetricsLog(path / "metrics.jsonl", clock=lambda: float(next(clock))) as log:
        log.append(
            "eval",
            0,
            split="test",
            label="before",
            reward=0.08,
            success=0.033,
            n=60,
            ci95=[0.009, 0.114],
            measure="success",
        )
        for step in range(1, steps + 1):
            share = step / steps
            ledger = Ledger()
            for sibling in range(32):
                fate = (
                    "no_spread"
                    if sibling % 8 > 4 + 3 * share
                    else "failed"
                    if sibling == 31 and step % 4 == 0
                    else "trained"
                )
                own = 46 if fate == "trained" and sibling == 5 else None
                ledger.add_rollout(fate, sampled_tokens=48 + sibling % 7, trained_tokens=own, truncated=sibling == 9)
            ledger.check()
            total += ledger
            success = max(0.0, 0.05 + lift * share + draw.gauss(0, 0.05))
            log.append(
                "train",
                step,
                reward_mean=success + 0.1,
                reward_std=0.3,
                success=success,
                trained_tokens=ledger["trained"].tokens,
                sampled_tokens=ledger["sampled"].tokens,
                tokens_per_s=60 + 8 * draw.random(),
                loss=-0.01 * draw.random(),
                grad_norm=0.2 + 0.1 * draw.random(),
                ratio_mean=1.0 + 0.002 * draw.random(),
                clip_fraction=0.01,
                seconds_rollout=24 + 4 * draw.random(),
                seconds_train=13 + draw.random(),
                seconds_reload=0.8,
                seconds_checkpoint=1.0,
                ledger=ledger.to_dict(),
            )
            if step % 5 == 0:
                log.append(
                    "eval",
                    step,
                    split="validation",
                    label="step",
                    reward=success + 0.05,
                    success=success,
                    n=24,
                    ci95=[max(0, success - 0.15), success + 0.15],
                    measure="success",
                )
        log.append(
            "eval",
            steps,
            split="test",
            label="after",
            reward=0.08 + lift,
            success=0.033 + lift,
            n=60,
            ci95=[lift, lift + 0.13],
            measure="success",
        )
    return total


def _evaluations(path: Path, tokenizer: ToyTokenizer, lift: float) -> None:
    good = '<tool_call>{"name": "convert_time", "arguments": {"source_timezone": "Europe/Paris", "time": "13:00", "target_timezone": "Asia/Tokyo"}}</tool_call>'
    bad = "The time in Tokyo is 13:00, because Tokyo is a city in Japan and Paris is in France. <b>Sure!</b>"
    for index in range(8):
        question = f"When it is 1{index}:00 in Paris, what time is it in Tōkyō?"
        solved = index % 2 == 0 and lift > 0
        before = rollout(
            tokenizer,
            f"q{index}",
            question,
            bad,
            reward=0.0,
            greedy=True,
            error="unknown_tool",
            result="there is no tool of that name",
        )
        after = rollout(tokenizer, f"q{index}", question, good if solved else bad, reward=float(solved), greedy=True)
        store.append(path / "trajectories" / "eval-before.jsonl", before)
        store.append(path / "trajectories" / "eval-after.jsonl", after)


def _group(path: Path, tokenizer: ToyTokenizer, step: int) -> None:
    for sibling in range(8):
        text = '<tool_call>{"name": "convert_time", "arguments": {"time": "@9:30"}}</tool_call>'.replace(
            "@", str(sibling % 3)
        )
        one = rollout(
            tokenizer,
            f"s{step}-{sibling}",
            "When it is 09:30 in Oslo, what time is it in Lima?",
            text,
            reward=[0.0, 0.5, 1.0, None][sibling % 4],
        )
        one.group_id = f"g{step}"
        store.append(path / "trajectories" / f"step-{step:06d}.jsonl", one)
