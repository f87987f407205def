"""Beginning from an adapter: what is found, what is refused before anything is written, and what a run keeps of it."""

from __future__ import annotations

import json
import shutil
import tomllib

import pytest
import torch

from art_core.errors import ArtError, InputError
from art_core.loop.config import TrainConfig
from art_core.loop.embedded import EmbeddedBackend
from art_core.loop.run import atrain
from art_core.loop.start import find_start
from art_core.loop.training_run import TrainingRun
from art_core.models.config import LoraConfig
from art_core.models.lora import attach, read_adapter
from art_core.training.checkpoint import save
from art_core.training.trainer import GrpoTrainer
from art_core.trajectory.graph import PolicyVersion
from tests.tiny import save_tiny, tiny_model

from .fake import SCENARIOS, quiet, reward
from .test_embedded import groups_of, rows, say

SHAPE = LoraConfig(rank=3, alpha=5.0, targets=("q_proj", "v_proj"))


@pytest.fixture
def model(tmp_path):
    return str(save_tiny(tmp_path / "model"))


@pytest.fixture
def adapter(tmp_path):
    """A PEFT directory whose adapter changes a lot."""
    model = attach(tiny_model(), SHAPE)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.5)
    model.save_pretrained(tmp_path / "adapter")
    return tmp_path / "adapter"


def checkpoint(directory, base_model="coin", seed=0):
    trainer = GrpoTrainer(attach(tiny_model(), SHAPE, seed=seed))
    save(directory, trainer, chat_template="t", extra={"step": 1, "base_model": base_model})
    return directory


def settings(tmp_path, start, **more):
    values = {
        "steps": 2,
        "deterministic": True,
        "name": "run",
        "out": str(tmp_path / "runs"),
        "precision": "float32",
        "rollout": {"group_size": 4, "scenarios_per_step": 2, "max_tokens": 4},
        "evaluation": {"validation": 0, "test": 2},
        "lora": {"start": str(start)},
    }
    return TrainConfig.build({**values, **more})


def early(trajectory, scenario):
    return sum(token < 128 for token in trajectory.turns[0].completion_ids) / 4


def same(one, two):
    one, two = read_adapter(one).factors, read_adapter(two).factors
    return one.keys() == two.keys() and all(torch.equal(a, b) for m in one for a, b in zip(one[m], two[m], strict=True))


def test_a_run_means_the_checkpoint_of_its_summary_else_the_newest_whole_one(tmp_path):
    (tmp_path / "run.toml").write_text("")
    with pytest.raises(InputError, match="is a run without a whole checkpoint"):
        find_start(tmp_path)
    for step in (1, 2, 3):
        checkpoint(tmp_path / "checkpoints" / f"step-{step:06d}")
    (tmp_path / "checkpoints" / "step-000003" / "manifest.json").unlink()
    assert find_start(tmp_path).path.name == "step-000002"
    (tmp_path / "summary.json").write_text(json.dumps({"checkpoint": "checkpoints/step-000001"}))
    found = find_start(tmp_path)
    assert (found.path.name, found.base_model, found.shape) == ("step-000001", "coin", SHAPE)


def test_what_is_no_adapter_is_named(tmp_path):
    with pytest.raises(InputError, match="is no directory; give a PEFT adapter or a run"):
        find_start(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"neither an adapter .* nor a run"):
        find_start(tmp_path)


def test_a_damaged_checkpoint_is_refused(tmp_path):
    (checkpoint(tmp_path / "c") / "adapter_model.safetensors").write_bytes(b"short")
    with pytest.raises(InputError, match=r"adapter_model.safetensors has 5 bytes"):
        find_start(tmp_path / "c")


@pytest.mark.parametrize(("name", "value"), [("rank", 16), ("alpha", 32.0), ("targets", "all-linear")])
def test_another_shape_that_was_asked_for_is_refused(adapter, name, value):
    with pytest.raises(InputError, match=rf"lora.{name} = .*, but the adapter to start from, .* has "):
        find_start(adapter).complete(LoraConfig.build({"start": str(adapter), name: value}))


def test_the_same_shape_may_be_said(adapter):
    said = {"start": str(adapter), "rank": 3, "targets": ["v_proj", "q_proj"]}
    done = find_start(adapter).complete(LoraConfig.build(said))
    assert (done.rank, done.alpha, done.targets) == (SHAPE.rank, SHAPE.alpha, SHAPE.targets)


async def test_an_adapter_of_another_base_model_is_refused_before_anything_is_written(tmp_path, model):
    start = checkpoint(tmp_path / "c", base_model="another")
    with pytest.raises(InputError, match="is an adapter of 'another'; it cannot begin a run of"):
        await atrain(say, SCENARIOS, reward, base_model=model, config=settings(tmp_path, start), progress=quiet())
    assert not (tmp_path / "runs").exists()


async def test_an_adapter_that_does_not_fit_the_model_leaves_no_run(tmp_path, adapter):
    other = str(save_tiny(tmp_path / "other", "qwen3"))
    with pytest.raises(InputError, match="does not fit"):
        await atrain(say, SCENARIOS, early, base_model=other, config=settings(tmp_path, adapter), progress=quiet())
    assert not (tmp_path / "runs" / "run").exists()


async def test_version_0_is_the_starting_adapter_for_the_sampler_and_the_trainer(model, adapter):
    config = TrainConfig.build({"precision": "float32", "rollout": {"max_tokens": 6}, "lora": {"start": str(adapter)}})
    backend = EmbeddedBackend(model, config)
    samples, _ = rows(await groups_of(backend, PolicyVersion("default", 0)))
    plain = attach(tiny_model(), SHAPE)
    plain.load_adapter(str(adapter), adapter_name="start")
    plain.set_adapter("start")
    for sample, trainer in zip(samples, backend.trainer().logprobs(samples), strict=True):
        with torch.no_grad():
            table = plain(torch.from_numpy(sample.token_ids)[None]).logits[0].log_softmax(-1)
        alone = table[torch.arange(len(table) - 1), torch.from_numpy(sample.token_ids)[1:]].numpy()[sample.mask[1:]]
        assert sample.logprobs[sample.mask] == pytest.approx(alone, abs=1e-4)
        assert trainer[sample.mask] == pytest.approx(alone, abs=1e-4)
    await backend.close()


async def test_a_run_keeps_its_own_copy_and_goes_on_without_the_place_it_came_from(tmp_path, model, adapter):
    training = {"kl_coefficient": 0.1, "kl_reference": "start"}
    config = settings(tmp_path, adapter, training=training)
    whole = await atrain(say, SCENARIOS, early, base_model=model, config=config, progress=quiet())
    cut = settings(tmp_path / "cut", adapter, training=training, steps=1)
    first = await atrain(say, SCENARIOS, early, base_model=model, config=cut, progress=quiet())
    record = tomllib.loads((first.run_dir / "run.toml").read_text())
    assert record["start"] == {"adapter": str(adapter)}
    assert (record["config"]["lora"]["rank"], record["config"]["lora"]["start"]) == (3, str(adapter))
    assert same(first.run_dir / "start-adapter", adapter)
    shutil.rmtree(adapter)
    more = settings(tmp_path / "cut", adapter, training=training)
    again = await atrain(say, reward=early, resume=first.run_dir, config=more, progress=quiet())
    assert same(again.adapter, whole.adapter)
    assert not same(again.adapter, first.run_dir / "start-adapter")


async def test_a_run_that_only_gets_worse_ends_with_the_adapter_it_began_from(tmp_path, model, adapter):
    def of_version_0(trajectory, scenario):
        return early(trajectory, scenario) / 10 + (trajectory.turns[0].versions[0].version.step == 0)

    config = settings(tmp_path, adapter, evaluation={"validation": 2, "test": 2, "every": 1}, keep_checkpoints=1)
    done = await atrain(say, SCENARIOS, of_version_0, base_model=model, config=config, progress=quiet())
    assert (done.summary["best_step"], done.summary["checkpoint"]) == (0, "checkpoints/step-000000")
    assert done.summary["updates"] == 2
    assert same(done.adapter, adapter)
    assert done.after.reward == done.before.reward >= 1
    assert [path.name for path in sorted((done.run_dir / "checkpoints").iterdir())] == ["step-000000", "step-000002"]


async def test_one_that_was_killed_after_its_first_checkpoint_goes_on(tmp_path, model, adapter, monkeypatch):
    async def killed(self, scenarios):
        raise MemoryError("no more")

    monkeypatch.setattr(TrainingRun, "take_step", killed)
    with pytest.raises(ArtError, match="no more"):
        await atrain(say, SCENARIOS, early, base_model=model, config=settings(tmp_path, adapter), progress=quiet())
    monkeypatch.undo()
    done = await atrain(say, reward=early, resume=tmp_path / "runs" / "run", progress=quiet())
    assert (done.summary["steps"], done.summary["best_step"]) == (2, 2)


async def test_a_run_whose_copy_is_gone_is_refused(tmp_path, model, adapter):
    first = await atrain(
        say, SCENARIOS, early, base_model=model, config=settings(tmp_path, adapter, steps=1), progress=quiet()
    )
    shutil.rmtree(first.run_dir / "start-adapter")
    with pytest.raises(InputError, match=r"start-adapter' is not a whole checkpoint"):
        await atrain(say, reward=early, resume=first.run_dir, progress=quiet())
