import asyncio
import io
import random
from types import SimpleNamespace

import pytest
import torch

from art_core.errors import InputError, ProviderError
from art_core.loop.config import TrainConfig
from art_core.loop.embedded import EmbeddedBackend
from art_core.loop.run import atrain
from art_core.messages import Message
from art_core.models.lora import read_adapter
from art_core.observe.progress import Progress
from art_core.rollout.group import gather
from art_core.scenario import Scenario
from art_core.training.advantages import group_advantages
from art_core.trajectory.graph import PolicyVersion
from tests.tiny import CHATML, save_tiny

BASE = PolicyVersion("default", 0)
CONFIG = TrainConfig(
    precision="float32",
    rollout={"max_tokens": 6, "group_size": 8},
    lora={"rank": 4},
    training={"learning_rate": 0.01},
)


@pytest.fixture
async def backend(tmp_path):
    backend = EmbeddedBackend(str(save_tiny(tmp_path / "model")), CONFIG)
    yield backend
    await backend.close()


def early_bytes(trajectory, scenario):
    """Rewards ids of the first half of the vocabulary."""
    ids = trajectory.turns[0].completion_ids
    return sum(token < 128 for token in ids) / len(ids)


async def groups_of(backend, version, step=0):
    policy = backend.policy(version)
    return await gather(say, [Scenario("s", "go")], policy, reward=early_bytes, group_size=16, step=step)


async def say(scenario, session):
    return (await session.turn([Message(role="user", content=scenario.input)])).reply.text


def rows(groups):
    samples, advantages = [], []
    for group in groups:
        for trajectory, advantage in zip(group, group_advantages(group.rewards), strict=True):
            samples += trajectory.samples()
            advantages += [advantage] * len(trajectory.samples())
    return samples, advantages


async def test_t5_the_trainer_sees_the_logprobs_the_sampler_drew_with(backend):
    samples, _ = rows(await groups_of(backend, BASE))
    fresh = await asyncio.to_thread(backend.trainer().logprobs, samples)
    for sample, logprobs in zip(samples, fresh, strict=True):
        assert logprobs[sample.mask] == pytest.approx(sample.logprobs[sample.mask], abs=1e-4)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
async def test_t20_the_drift_between_sampler_and_trainer_is_part_of_the_report(tmp_path, precision):
    config = CONFIG.model_copy(update={"precision": precision})
    backend = EmbeddedBackend(str(save_tiny(tmp_path / "model", "qwen3")), config)
    report = await asyncio.to_thread(backend.train, *rows(await groups_of(backend, BASE)))
    await backend.close()
    if precision == "float32":
        assert 0 <= report.kl_behaviour < 1e-6
    else:
        assert 0 < report.kl_behaviour < 0.1


async def test_a_few_steps_raise_the_reward(backend):
    version, means = BASE, []
    for step in range(8):
        groups = await groups_of(backend, version, step)
        means.append(sum(groups[0].rewards) / 16)
        await asyncio.to_thread(backend.train, *rows(groups))
        version = PolicyVersion("default", step + 1)
        await backend.publish(version)
    assert means[-1] > means[0] + 0.4


async def test_after_a_step_the_published_version_samples_what_the_trainer_computes(backend):
    await asyncio.to_thread(backend.train, *rows(await groups_of(backend, BASE)))
    await backend.publish(PolicyVersion("default", 1))
    samples, _ = rows(await groups_of(backend, PolicyVersion("default", 1), step=1))
    fresh = await asyncio.to_thread(backend.trainer().logprobs, samples)
    for sample, logprobs in zip(samples, fresh, strict=True):
        assert sample.version == PolicyVersion("default", 1)
        assert logprobs[sample.mask] == pytest.approx(sample.logprobs[sample.mask], abs=1e-4)


async def test_a_version_that_is_not_served_is_refused(backend):
    with pytest.raises(ProviderError, match="default@3 was asked for, but default@0 is being served"):
        backend.policy(PolicyVersion("default", 3))


async def test_a_checkpoint_brings_the_weights_back(backend, tmp_path):
    samples, advantages = rows(await groups_of(backend, BASE))
    backend.train(samples, advantages)
    backend.save(tmp_path / "step-000001", {"step": 1})
    saved = read_adapter(tmp_path / "step-000001").factors
    backend.train(samples, advantages)
    assert backend.load(tmp_path / "step-000001")["step"] == 1
    backend.save(tmp_path / "again", {})
    again = read_adapter(tmp_path / "again").factors
    assert all(torch.equal(up, again[name][1]) for name, (_, up) in saved.items())


async def test_a_checkpoint_of_another_base_model_is_refused(backend, tmp_path):
    other = EmbeddedBackend(str(save_tiny(tmp_path / "other", seed=1)), CONFIG)
    other.save(tmp_path / "step-000001", {})
    await other.close()
    with pytest.raises(ValueError, match="is a checkpoint of"):
        backend.load(tmp_path / "step-000001")


async def test_evaluation_is_greedy_and_says_so(backend):
    policy = backend.policy(BASE)
    groups = await gather(say, [Scenario("s", "go")], policy, group_size=2, evaluating=True)
    one, two = (trajectory.turns[0] for trajectory in groups[0])
    assert one.completion_ids == two.completion_ids
    assert one.not_trainable == "sampled greedily (temperature 0)"


async def test_it_says_what_it_runs_on(backend):
    facts = backend.describe()
    assert facts["precision"] == "float32"
    assert facts["chat template"] == "with the fallback tool section"
    assert facts["probe"]["float32_gflops"] > 0


async def halting(scenario, session):
    """Asks twice, with a tool in between that takes as long as it likes."""
    messages = [Message(role="user", content=scenario.input)]
    reply = (await session.turn(messages)).reply
    await asyncio.sleep(random.SystemRandom().random() * 0.05)
    return (await session.turn([*messages, reply, Message(role="user", content="and then?")])).reply.text


def spread(trajectory, scenario):
    return sum(sum(turn.completion_ids) for turn in trajectory.turns) % 97 / 97


async def test_t25_a_deterministic_run_leaves_the_same_bytes_whatever_its_tools_delays(tmp_path):
    model = save_tiny(tmp_path / "model", "qwen3")
    left = []
    for number in range(2):
        config = TrainConfig(
            steps=2,
            deterministic=True,
            name="run",
            out=str(tmp_path / str(number)),
            rollout={"max_tokens": 8, "group_size": 4, "scenarios_per_step": 3, "concurrency": 5 + 3 * number},
            lora={"rank": 4},
            training={"micro_batch_tokens": 128},
            evaluation={"validation": 0, "test": 0},
        )
        scenarios = [Scenario(f"s{i}", f"{i} " * (i + 1)) for i in range(6)]
        progress = Progress(quiet=True, out=io.StringIO(), err=io.StringIO())
        result = await atrain(halting, scenarios, spread, base_model=str(model), config=config, progress=progress)
        assert result.summary["updates"] == 2
        files = sorted((result.run_dir / "checkpoints").glob("*/*.safetensors"))
        left.append({str(path.relative_to(result.run_dir)): path.read_bytes() for path in files})
    assert len(left[0]) == 4
    assert left[0] == left[1]


async def test_a_deterministic_run_is_not_made_on_a_gpu(tmp_path, monkeypatch):
    monkeypatch.setattr("art_core.loop.embedded.probe", lambda: SimpleNamespace(device="cuda"))
    with pytest.raises(ValueError, match="a deterministic run computes on a CPU, not on cuda"):
        EmbeddedBackend(str(save_tiny(tmp_path)), TrainConfig(deterministic=True))


def test_a_deterministic_run_refuses_a_chat_template_with_a_date(tmp_path):
    model = save_tiny(tmp_path / "model")
    (model / "chat_template.jinja").write_text("{{ strftime_now('%Y-%m-%d') }}" + CHATML)
    with pytest.raises(InputError, match=r"shows the date \(strftime_now\)"):
        EmbeddedBackend(str(model), TrainConfig.build(deterministic=True))
