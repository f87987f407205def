"""T26: every field of the configuration changes what a run does, writes or asks for, or is refused; none does nothing.

``KNOBS`` has an entry for every leaf of ``TrainConfig``; a new field without one fails with its name. An entry is two
configurations that differ in that field, tried on a whole run with a backend that is a number (``run``), or on the
embedded backend with a tiny model (``steps``), and what was observed must differ. What is observed never holds the
configuration itself, nor what a clock says.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import tomllib
from dataclasses import dataclass, field
from typing import Any

import pytest

from art_core.errors import ArtError
from art_core.inference.scripted import ScriptedPolicy
from art_core.loop.collect import acollect, open_collection
from art_core.loop.config import TrainConfig
from art_core.loop.embedded import EmbeddedBackend
from art_core.loop.run import atrain
from art_core.messages import Message
from art_core.models.lora import read_adapter
from art_core.observe.metrics import read_metrics
from art_core.rollout.group import gather
from art_core.supervised.train import atrain as warm_atrain
from art_core.trajectory import store
from art_core.trajectory.graph import PolicyVersion
from art_core.trajectory.trajectory import Reward, ToolEvent
from tests.knobs import leaves, with_values
from tests.tiny import save_tiny
from tests.unit.training.test_trainer import CHANGES, ONLY_THE_WORK
from tests.unit.training.tiny import step_rows

from .fake import SCENARIOS, FakeBackend, quiet


@dataclass(frozen=True, kw_only=True)
class Knob:
    """Two configurations that differ in one field."""

    path: str
    changed: Any
    given: dict[str, Any] = field(default_factory=dict)
    """Of both."""
    also: dict[str, Any] = field(default_factory=dict)
    """Of the changed one, where the field needs another."""
    on: str = "run"
    skill: float = 0.3
    rate: float = 0.3
    slow: str = ""
    """What takes longer than the changed limit."""

    def __str__(self) -> str:
        return f"{self.path}={self.changed}"

    def configs(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return self.given, {**self.given, self.path: self.changed, **self.also}


ONLY_WORK: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"micro_batch_tokens": 1}),
    ({}, {"min_shared_tokens": 4096}),
]
assert {name for _, changed in ONLY_WORK for name in changed} == ONLY_THE_WORK

MANY = {"rollout.scenarios_per_step": 12, "steps": 8}  # several epochs

KNOBS = [
    Knob(path="steps", changed=3),
    Knob(path="max_time", changed=0.001),
    Knob(path="target", changed=0.01),
    Knob(path="patience", changed=1, given={"steps": 4, "evaluation.every": 1}, rate=0.0),
    Knob(path="flat_steps", changed=1, skill=0.0),
    Knob(path="keep_checkpoints", changed=1, given={"steps": 4}),
    Knob(path="best_metric", changed="sampled_tokens", given={"steps": 4}),
    Knob(path="best_mode", changed="min", given={"steps": 4, "best_metric": "reward_mean"}),
    Knob(path="seed", changed=1),
    Knob(path="deterministic", changed=True, given={"max_time": 1000.0}),
    Knob(path="lora.start", changed="nowhere"),
    Knob(path="warm_start.run", changed="nowhere"),
    *(
        Knob(path=f"warm_start.{name}", changed=value, given={"warm_start.run": "collected"} | given, on="warm")
        for name, value, given in (
            ("min_reward", 0.9, {"warm_start.min_reward": 0.1}),
            ("epochs", 2, {"warm_start.min_reward": 0.1}),
            ("learning_rate", 0.01, {"warm_start.min_reward": 0.1}),
        )
    ),
    Knob(path="name", changed="other"),
    Knob(path="out", changed="elsewhere"),
    Knob(path="precision", changed="bfloat16", on="steps"),
    Knob(path="advantage_scale", changed="none"),
    Knob(path="advantage_scale", changed="batch"),
    Knob(path="advantage_baseline", changed="leave_one_out"),
    Knob(path="advantage_epsilon", changed=0.5),
    Knob(path="trained_per_group", changed=2),
    Knob(path="max_row_tokens", changed=2),
    Knob(path="rollout.group_size", changed=5),
    Knob(path="rollout.scenarios_per_step", changed=2),
    Knob(path="rollout.curriculum", changed="pass_rate", given=MANY, rate=0.0),
    Knob(path="rollout.concurrency", changed=1),
    Knob(path="rollout.temperature", changed=0.5, on="steps"),
    Knob(path="rollout.max_tokens", changed=2, on="steps"),
    Knob(path="rollout.limits.turns", changed=1),
    Knob(path="rollout.limits.tokens", changed=2),
    Knob(path="rollout.limits.tool_calls", changed=1),
    Knob(path="rollout.limits.seconds", changed=0.05, slow="agent"),
    Knob(path="rollout.limits.reward_seconds", changed=0.05, slow="reward"),
    Knob(path="rollout.limits.close_seconds", changed=0.05, slow="closing"),
    Knob(path="lora.rank", changed=2, on="steps"),
    Knob(path="lora.alpha", changed=8.0, on="steps"),
    Knob(path="lora.targets", changed=("q_proj",), on="steps"),
    Knob(path="evaluation.validation", changed=3),
    Knob(path="evaluation.test", changed=3),
    Knob(path="evaluation.every", changed=1),
    Knob(path="evaluation.temperature", changed=1.0, on="steps"),
    *(
        Knob(
            path=f"training.{name}",
            changed=value,
            given={f"training.{key}": one for key, one in given.items()},
            also={f"training.{key}": one for key, one in changed.items() if key != name},
            on="steps",
        )
        for given, changed in [*CHANGES, *ONLY_WORK]
        for name, value in changed.items()
    ),
]


def test_no_field_is_left_out() -> None:
    tried, fields = {knob.path for knob in KNOBS}, set(leaves(TrainConfig))
    assert fields - tried == set()
    assert tried - fields == set()


class Recording(FakeBackend):
    """Keeps what it was given to train on."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.given: list[Any] = []

    def train(self, samples: Any, advantages: Any, on_progress: Any = None) -> Any:
        self.given.append(
            [(sample.rollout_id, advantage) for sample, advantage in zip(samples, advantages, strict=True)]
        )
        return super().train(samples, advantages, on_progress)


class Busy:
    """Two turns with a tool call each, in an environment; slow where it is told to be, and counts those at work."""

    def __init__(self, slow: str) -> None:
        self.slow, self.running, self.peak = slow, 0, 0

    @contextlib.asynccontextmanager
    async def open(self, scenario: Any, session: Any) -> Any:
        yield "open"
        await self.wait("closing", session.rollout_id)

    async def __call__(self, scenario: Any, session: Any) -> str:
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            history = [Message(role="user", content=scenario.input)]
            for number in range(2):
                turn = await session.turn(history)
                await asyncio.sleep(0)
                session.check_tool_call()
                event = ToolEvent(turn=turn.id, call_id=str(number), name="look", arguments={}, result="")
                session.record_tool(event)
                history += [turn.reply, Message(role="user", content=scenario.input)]
            await self.wait("agent", session.rollout_id)
        finally:
            self.running -= 1
        return turn.reply.text

    async def reward(self, trajectory: Any, scenario: Any) -> Reward:
        await self.wait("reward", trajectory.rollout_id)
        return Reward(float(trajectory.output == "yes"), success=trajectory.output == "yes")

    async def wait(self, what: str, rollout_id: str) -> None:
        if self.slow == what and rollout_id.startswith("1-") and rollout_id.endswith("-0"):
            await asyncio.sleep(0.5)


async def observe_run(knob: Knob, values: dict[str, Any], place: Any, model: Any) -> Any:
    """Everything a run leaves behind and asks for, or why it was refused."""
    small = {"steps": 2, "name": "run", "out": "runs", "rollout.group_size": 4, "rollout.scenarios_per_step": 3}
    small |= {"evaluation.validation": 6, "evaluation.test": 8, "evaluation.every": 2}
    backend, agent = Recording(skill=knob.skill, rate=knob.rate), Busy(knob.slow)
    with contextlib.chdir(place):
        config = TrainConfig.build(with_values({**small, **values}))
        result = await atrain(agent, SCENARIOS, agent.reward, backend=backend, config=config, progress=quiet())
        rollouts = [one for path in sorted(result.run_dir.glob("trajectories/*")) for one in store.read(path)]
        rows = read_metrics(result.run_dir / "metrics.jsonl")
        return {
            "where": str(result.run_dir),
            "files": sorted(str(path.relative_to(result.run_dir)) for path in result.run_dir.rglob("*")),
            "rows": [{k: v for k, v in row.items() if not _clock(k) and k != "curriculum"} for row in rows],
            "rollouts": [
                (one.rollout_id, one.scenario.id, one.stop_reason, one.reward, one.sampled_tokens, one.metrics)
                for one in rollouts
            ],
            "given": backend.given,
            "peak": agent.peak,
            "summary": [
                result.summary[name] for name in ("steps", "stop_reason", "best_step", "checkpoint", "scenarios")
            ],
        }


def _clock(name: str) -> bool:
    return "seconds" in name or name in ("time_s", "tokens_per_s")


async def observe_steps(knob: Knob, values: dict[str, Any], place: Any, model: Any) -> Any:
    """What the embedded backend samples before, and computes and saves in two steps of its own."""
    small = {"precision": "float32", "rollout.max_tokens": 4, "lora.rank": 4, "training.learning_rate": 0.02}
    small |= {"training.passes": 2, "training.max_grad_norm": 1e3, "training.min_shared_tokens": 1}
    backend = EmbeddedBackend(str(model), TrainConfig.build(with_values({**small, **values})))
    try:
        replies = []
        for evaluating in (False, True):
            policy = backend.policy(PolicyVersion("default", 0))
            (group,) = await gather(ask, SCENARIOS[:1], policy, group_size=2, evaluating=evaluating)
            replies += [(one.turns[0].completion_ids, one.turns[0].temperature) for one in group]
        reports, fractions = await asyncio.to_thread(two_steps, backend)
        await asyncio.to_thread(backend.save, place / "checkpoint", {})
        factors = read_adapter(place / "checkpoint").factors
        saved = {name: [one.tolist() for one in pair] for name, pair in factors.items()}
        return {"replies": replies, "reports": reports, "fractions": fractions, "saved": saved}
    finally:
        await backend.close()


async def observe_warm(knob: Knob, values: dict[str, Any], place: Any, model: Any) -> Any:
    """The adapter that a run begins from, and what it was made of; half of what was collected has a reward of 0.5, half of 1."""
    small = {"steps": 1, "name": "run", "precision": "float32", "rollout.group_size": 2, "rollout.max_tokens": 4}
    small |= {"rollout.scenarios_per_step": 2, "evaluation.validation": 0, "evaluation.test": 0, "warm_start.epochs": 1}
    with contextlib.chdir(place):
        collection = open_collection(place / "collected", {"model": "m"})
        await acollect(ask, SCENARIOS[:8], ScriptedPolicy(lambda *_: "yes"), collection, reward=half)
        config = TrainConfig.build(with_values({**small, **values}))
        result = await warm_atrain(ask, SCENARIOS[8:12], half, base_model=str(model), config=config, progress=quiet())
        record = tomllib.loads((result.run_dir / "run.toml").read_text())
        factors = read_adapter(result.run_dir / "start-adapter").factors
        return {
            "data": record["warm_start"],
            "factors": {name: [one.tolist() for one in pair] for name, pair in factors.items()},
        }


def half(trajectory: Any, scenario: Any) -> float:
    return 1.0 if int(scenario.id[1:]) % 2 else 0.5


async def ask(scenario: Any, session: Any) -> str:
    return (await session.turn([Message(role="user", content=scenario.input)])).reply.text


def two_steps(backend: EmbeddedBackend) -> tuple[list[Any], list[float]]:
    samples, advantages = step_rows()
    seen = backend.trainer().logprobs(samples)
    samples = [dataclasses.replace(one, logprobs=value) for one, value in zip(samples, seen, strict=True)]
    fractions: list[float] = []
    reports = [backend.train(samples, advantages, fractions.append).to_dict() for _ in range(2)]
    return [{k: v for k, v in report.items() if not _clock(k)} for report in reports], fractions


OBSERVE = {"run": observe_run, "steps": observe_steps, "warm": observe_warm}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return save_tiny(tmp_path_factory.mktemp("model"))


async def observed(knob: Knob, values: dict[str, Any], place: Any, model: Any) -> Any:
    place.mkdir()
    try:
        return await OBSERVE[knob.on](knob, values, place, model)
    except ArtError as error:
        return str(error)


@pytest.mark.parametrize("knob", KNOBS, ids=str)
async def test_every_field_shows(knob: Knob, tmp_path: Any, model: Any) -> None:
    plain, changed = knob.configs()
    before = await observed(knob, plain, tmp_path / "plain", model)
    assert isinstance(before, dict), before
    assert await observed(knob, changed, tmp_path / "changed", model) != before


@pytest.mark.parametrize(
    "knob",
    [
        Knob(path="seed", changed=0),
        Knob(path="rollout.curriculum", changed="none", given=MANY, rate=0.0),
        *(Knob(path="seed", changed=0, slow=what) for what in ("agent", "reward", "closing")),
        Knob(path="training.passes", changed=2, on="steps"),
    ],
    ids=str,
)
async def test_what_is_observed_is_the_same_where_nothing_was_changed(knob: Knob, tmp_path: Any, model: Any) -> None:
    """Otherwise the test above could not fail."""
    one, two = [
        await observed(knob, values, tmp_path / name, model) for name, values in zip("ab", knob.configs(), strict=True)
    ]
    assert one == two
