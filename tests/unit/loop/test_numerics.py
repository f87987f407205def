"""The five checks on tiny models: they pass on what is right, and each fails on a defect of its own."""

from __future__ import annotations

import asyncio
import dataclasses
import json

import pytest
import torch

from art_core.errors import InputError
from art_core.loop.bench import Bench
from art_core.loop.config import TrainConfig
from art_core.loop.numerics import measure_numerics
from art_core.loop.run import atrain
from art_core.loop.subject import find_subject
from art_core.messages import Message
from art_core.models import decoding
from art_core.models.lora import read_adapter
from art_core.scenario import Scenario
from art_core.supervised.config import SftConfig
from art_core.supervised.run import asft
from art_core.training import tree_attention
from art_core.training.trainer import GrpoTrainer
from tests.tiny import FAMILIES, save_tiny

from .fake import quiet


def answers(target, precision="float32"):
    report = measure_numerics(find_subject(str(target)), precision)
    assert [check.name for check in report.checks] == [
        "sampler-vs-trainer",
        "adapter-vs-merged",
        "prefix-shared-vs-padded",
        "temperature",
        "re-rendering",
    ]
    return report


def failed(target):
    return set(answers(target).failed)


@pytest.fixture
def model(tmp_path):
    return save_tiny(tmp_path / "model", "qwen3")  # its distribution is far from certain


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_passes_in_float32(family, tmp_path):
    report = answers(save_tiny(tmp_path / "model", family))
    assert report.failed == ()
    assert {check.name: check.status for check in report.checks if check.name != "re-rendering"} == dict.fromkeys(
        ("sampler-vs-trainer", "adapter-vs-merged", "prefix-shared-vs-padded", "temperature"), "pass"
    )
    sharing = report.checks[2].figures[0]
    assert (sharing.name, sharing.value < 0.8) == ("tokens computed, of all", True)


def test_a_report_is_json_and_says_on_what_it_was_measured(model):
    lines = []
    report = measure_numerics(find_subject(str(model)), "bfloat16", say=lines.append)
    record = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert record["precision"] == "bfloat16"
    assert record["subject"] == f"model {model}, with a random adapter"
    assert record["floor"]["mean"] > 1e-4
    assert {"name", "status", "figures", "note", "question"} == set(record["checks"][0])
    assert "measuring the noise floor" in lines


def test_t20_bfloat16_tells_its_gap_to_float32(model):
    record = answers(model, "bfloat16").to_dict()
    gap, floor = record["gap_to_float32"], record["floor"]
    assert gap.keys() == {"mean", "largest", "gradient"}
    assert all(0 < gap[name] <= floor[name] for name in gap)


def test_t20_float32_has_no_gap_to_itself(model):
    assert answers(model, "float32").to_dict()["gap_to_float32"] is None


def doubled(directory):
    weights = read_adapter(directory)
    return dataclasses.replace(weights, scale=2 * weights.scale)


def test_a_sampler_with_another_adapter_scale_fails(model, monkeypatch):
    monkeypatch.setattr("art_core.inference.transformers_engine.read_adapter", doubled)
    found = failed(model)
    assert "sampler-vs-trainer" in found
    assert not found & {"adapter-vs-merged", "prefix-shared-vs-padded"}


def test_an_adapter_folded_in_twice_fails(model, monkeypatch):
    monkeypatch.setattr("art_core.loop.bench.read_adapter", doubled)
    assert failed(model) == {"adapter-vs-merged"}


def test_a_packing_that_hides_a_token_fails(model, monkeypatch):
    whole = tree_attention._Layout.hidden

    def hiding(self, columns):
        hidden = whole(self, columns)
        if len(hidden) > 20:  # longer than what the trainer tries itself
            hidden[2:, 0] = True
        return hidden

    monkeypatch.setattr(tree_attention._Layout, "hidden", hiding)
    assert "prefix-shared-vs-padded" in failed(model)


def test_draws_at_another_temperature_than_is_recorded_fail(model, monkeypatch):
    honest = decoding.draw

    def hotter(logits, params, keys, counters):
        hot = [dataclasses.replace(p, temperature=1.6 * p.temperature) for p in params]
        ids, _ = honest(logits.clone(), hot, keys, counters)
        scaled = logits / torch.tensor([p.temperature for p in params])[:, None]
        return ids, scaled.log_softmax(-1)[range(len(ids)), ids].tolist()

    monkeypatch.setattr(decoding, "draw", hotter)
    assert failed(model) == {"temperature"}


def test_a_trainer_that_forgets_the_temperature_fails(model, monkeypatch):
    honest = GrpoTrainer.logprobs

    def forgetting(self, samples):
        return honest(self, [dataclasses.replace(sample, temperature=1.0) for sample in samples])

    monkeypatch.setattr(GrpoTrainer, "logprobs", forgetting)
    assert failed(model) == {"temperature"}  # runs are sampled at 1, where nothing shows


async def talk(scenario, session):
    messages = [Message(role="user", content=scenario.input)]
    messages.append((await session.turn(messages)).reply)
    await session.turn([*messages, Message(role="user", content="go on")])


def early_bytes(trajectory, scenario):
    ids = [token for turn in trajectory.turns for token in turn.completion_ids]
    return sum(token < 128 for token in ids) / len(ids)


async def a_run(tmp_path, model, **more):
    config = TrainConfig.build(
        {"precision": "float32", **more},
        steps=1,
        name="run",
        out=str(tmp_path),
        rollout={"max_tokens": 6, "group_size": 4, "scenarios_per_step": 2, "temperature": 0.9},
        lora={"rank": 4},
        training={"learning_rate": 0.01},
        evaluation={"validation": 0, "test": 0},
    )
    scenarios = [Scenario(f"s{number}", f"question {number}") for number in range(4)]
    return await atrain(talk, scenarios, early_bytes, base_model=str(model), config=config, progress=quiet())


async def test_a_run_is_measured_with_its_adapter_its_prompts_and_its_turns(tmp_path, model):
    result = await a_run(tmp_path, model)
    subject = find_subject(str(result.run_dir))
    assert subject.adapter == result.run_dir / "checkpoints" / "step-000001"
    assert len(subject.trajectories) == 8
    report = await asyncio.to_thread(measure_numerics, subject, "float32")
    assert report.failed == ()
    assert report.temperature == 0.9
    assert report.subject == f"run {result.run_dir}, with the adapter of step-000001"
    assert "8 turns of the run's last step" in report.checks[-1].note


@pytest.mark.parametrize("wrong", ["no-such-model", "{tmp}"])
def test_what_is_neither_a_run_nor_a_model_is_one_sentence(wrong, tmp_path):
    target = wrong.format(tmp=tmp_path)
    with pytest.raises(InputError, match=r"is neither a run directory \(it has no run\.toml\) nor a model"):
        find_subject(target)


def test_a_run_without_a_base_model_is_one_sentence(tmp_path):
    (tmp_path / "run.toml").write_text("[config]\n")
    with pytest.raises(InputError, match=r"run\.toml names no base_model"):
        find_subject(str(tmp_path))


def test_a_context_too_short_for_any_prompt_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match="has a context of 32 tokens; no prompt fits"):
        measure_numerics(find_subject(str(save_tiny(tmp_path / "model", context=32))), "float32")


async def test_a_deterministic_run_is_measured_as_it_computes(tmp_path, model):
    result = await a_run(tmp_path, model, deterministic=True, precision="auto")
    subject = find_subject(str(result.run_dir))
    assert subject.config.computed_in == "float32"
    bench = await asyncio.to_thread(Bench, subject, subject.config.computed_in)
    assert bench.engine.lanes is not None
    await bench.close()


async def test_a_run_of_supervised_fine_tuning_is_measured_with_its_adapter(tmp_path, model):
    chats = tmp_path / "chats.jsonl"
    ask = {"role": "user", "content": "a"}
    chats.write_text(
        "".join(json.dumps({"messages": [ask, {"role": "assistant", "content": f"b{n}"}]}) + "\n" for n in range(6))
    )
    config = SftConfig.build(epochs=1, name="warm", out=str(tmp_path), precision="float32", lora={"rank": 4})
    result = await asft(chats, base_model=str(model), config=config, progress=quiet())
    subject = find_subject(str(result.run_dir))
    assert (subject.adapter, subject.config.lora.rank) == (result.adapter, 4)
