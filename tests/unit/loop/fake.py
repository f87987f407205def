"""A backend without a model: one number, the chance of saying "yes", that training moves."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from art_core.errors import NonFiniteError, ProviderError
from art_core.inference.scripted import ScriptedPolicy
from art_core.loop.config import EvaluationConfig, RolloutConfig, TrainConfig
from art_core.messages import Message
from art_core.observe.progress import Progress
from art_core.randomness import fold, uniform
from art_core.rendering.tokenizer import BytesTokenizer
from art_core.scenario import Scenario
from art_core.training.config import StepReport
from art_core.training.manifest import verify, write_directory
from art_core.trajectory.graph import PolicyVersion, Turn
from art_core.trajectory.samples import TrainingSample
from art_core.trajectory.trajectory import Reward, Trajectory

SCENARIOS = [Scenario(f"s{number}", f"question {number}") for number in range(40)]


class CoinPolicy:
    """Says "yes" with a given chance, by the session's key; while evaluating, if the scenario is easy enough."""

    def __init__(self, skill: float, version: PolicyVersion) -> None:
        self.skill, self.version = skill, version

    async def complete(self, session: Any, messages: Sequence[Message], tools: Any, params: dict[str, Any]) -> Turn:
        key = fold(messages[-1].text) if session.evaluating else fold(*session.rng_parts)
        word = "yes" if uniform(key, 0) < self.skill else "no"
        return await ScriptedPolicy([word], version=self.version).complete(session, messages, tools, params)


class FakeBackend:
    """Trains a number; can be told to fail."""

    def __init__(self, *, skill: float = 0.3, rate: float = 0.3, fail_at: int | None = None) -> None:
        self.start = self.skill = skill
        self.rate, self.fail_at = rate, fail_at
        self.served = PolicyVersion("default", 0)
        self.trained: list[int] = []
        self.on_train: Callable[[], None] = lambda: None

    def policy(self, version: PolicyVersion) -> CoinPolicy:
        if version != self.served:
            raise ProviderError(f"{version} is not served")
        return CoinPolicy(self.skill, version)

    def train(
        self, samples: Sequence[TrainingSample], advantages: Sequence[float], on_progress: Any = None
    ) -> StepReport:
        self.on_train()
        if len(self.trained) + 1 == self.fail_at:
            raise NonFiniteError("the loss of a micro-batch is nan")
        tokenizer = BytesTokenizer()
        push = 0.0
        for sample, advantage in zip(samples, advantages, strict=True):
            word = tokenizer.decode([int(token) for token in sample.token_ids[sample.mask]])
            push += advantage if word.startswith("yes") else -advantage
        self.skill = min(1.0, max(0.0, self.skill + self.rate * push / len(samples)))
        self.trained.append(len(samples))
        on_progress(1.0)
        return report(rows=len(samples), tokens=sum(sample.trained_tokens for sample in samples))

    async def publish(self, version: PolicyVersion) -> None:
        self.served = version

    def save(self, directory: Path, extra: Mapping[str, Any]) -> None:
        state = {"skill": self.skill, "trained": self.trained, "extra": dict(extra)}
        write_directory(directory, lambda place: (place / "state.json").write_text(json.dumps(state)))

    def load(self, directory: Path) -> Mapping[str, Any]:
        verify(directory)
        state = json.loads((directory / "state.json").read_text())
        self.skill, self.trained = state["skill"], list(state["trained"])
        return state["extra"]

    def decode(self, ids: Sequence[int]) -> str:
        return BytesTokenizer().decode(ids)

    def describe(self) -> dict[str, Any]:
        return {"base_model": "coin", "device": "none", "precision": "float32", "probe": {}}

    async def close(self) -> None:
        pass


def report(*, rows: int, tokens: int) -> StepReport:
    zeros = dict.fromkeys(("loss", "grad_norm", "clip_fraction", "kl_behaviour", "entropy", "seconds"), 0.0)
    counts = dict.fromkeys(("rows_skipped", "forward_tokens", "row_tokens", "masked_rollouts", "masked_tokens"), 0)
    return StepReport(
        updated=True,
        micro_batch_tokens=1024,
        learning_rate=1.0,
        rows=rows,
        tokens=tokens,
        ratio_mean=1.0,
        kl_base=None,
        **zeros,
        **counts,
    )


async def agent(scenario: Scenario, session: Any) -> str:
    turn = await session.turn([Message(role="user", content=scenario.input)])
    return turn.reply.text


def reward(trajectory: Trajectory, scenario: Scenario) -> Reward:
    return Reward(float(trajectory.output == "yes"), success=trajectory.output == "yes")


def config(out: Path, **more: Any) -> TrainConfig:
    values = {
        "steps": 4,
        "name": "run",
        "out": str(out),
        "rollout": RolloutConfig(group_size=4, scenarios_per_step=3),
        "evaluation": EvaluationConfig(validation=6, test=8, every=2),
    }
    return TrainConfig.build({**values, **more})


def quiet() -> Progress:
    return Progress(quiet=True, out=io.StringIO(), err=io.StringIO())
