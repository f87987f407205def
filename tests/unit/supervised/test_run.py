"""A whole run with a tiny model: what it learns, what it leaves behind, and that a kill anywhere changes no byte."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import tomllib

import pytest
import torch

from art_core.errors import InputError, NonFiniteError
from art_core.loop.config import TrainConfig
from art_core.loop.embedded import EmbeddedBackend
from art_core.loop.run import atrain
from art_core.loop.rundir import RunDir
from art_core.models.lora import read_adapter
from art_core.observe.metrics import MetricsLog, read_metrics
from art_core.observe.report import write_report
from art_core.supervised.config import SftConfig
from art_core.supervised.learner import Learner
from art_core.supervised.rows import Rows
from art_core.supervised.run import asft, sft
from art_core.supervised.sft_run import SftRun
from art_core.training.checkpoint import load_adapter
from art_core.training.sft import SftTrainer
from art_core.trajectory.graph import PolicyVersion
from tests.tiny import save_tiny
from tests.unit.loop.fake import quiet
from tests.unit.loop.test_embedded import groups_of, rows, say

from .chats import plain_chat, rollout, tool_chat, write

CITIES = ["Oslo", "Rome", "Lima", "Paris", "Cairo", "Quito", "Tokyo", "Delhi", "Sofia", "Accra"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(save_tiny(tmp_path_factory.mktemp("m") / "model", context=1024))


def data(path):
    """Nine chats to train on and one held out: six steps in two epochs of three."""
    return write(path / "data.jsonl", *(plain_chat(f"What is {city}?", f"{city} is a city.") for city in CITIES))


def config(path, **more):
    values = {
        "epochs": 2,
        "batch_rows": 3,
        "learning_rate": 0.01,
        "checkpoint_every": 2,
        "precision": "float32",
        "lora": {"rank": 4},
        "name": "run",
        "out": str(path),
    }
    return SftConfig.build({**values, **more})


async def run(path, model, *, source=None, **more):
    return await asft(source or data(path), base_model=model, config=config(path, **more), progress=quiet())


def resume(path, **more):
    return asft(resume=path, progress=quiet(), **more)


def numbers(run_dir):
    """The rows without what a clock says, and without events."""
    rows = [row for row in read_metrics(run_dir / "metrics.jsonl") if row["kind"] != "event"]
    return [{k: v for k, v in row.items() if k not in ("time_s", "seconds")} for row in rows]


def adapter_bytes(run_dir, step=6):
    return (run_dir / "checkpoints" / f"step-{step:06d}" / "adapter_model.safetensors").read_bytes()


async def test_the_loss_falls_on_rows_it_was_not_trained_on(tmp_path, model):
    result = await run(tmp_path, model)
    assert result.after < result.before - 1.0
    summary = json.loads((result.run_dir / "summary.json").read_text())
    assert (summary["kind"], summary["steps"], summary["epochs"], summary["stop_reason"]) == ("sft", 6, 2.0, "steps")
    assert summary["rows"] == {"train": 9, "validation": 1}
    assert summary["before"]["loss"] == result.before
    assert summary["checkpoint"] == f"checkpoints/step-{summary['best_step']:06d}"
    assert result.adapter.is_dir()
    assert "on held-out rows" in str(result)


async def test_every_step_and_validation_is_a_row(tmp_path, model):
    rows = numbers((await run(tmp_path, model)).run_dir)
    steps = [row for row in rows if row["kind"] == "sft"]
    assert [(row["step"], row["epoch"]) for row in steps] == [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2), (6, 2)]
    assert [round(row["learning_rate"] * 600) for row in steps] == [6, 5, 4, 3, 2, 1]
    assert steps[0].keys() >= {"loss", "rows", "tokens", "grad_norm"}
    told = [(row["step"], row["label"], row["n"]) for row in rows if row["kind"] == "sft_eval"]
    assert told == [(0, "before", 1), (3, "step", 1), (6, "step", 1)]


async def test_the_best_checkpoint_is_the_one_with_the_lowest_validation_loss(tmp_path, model):
    result = await run(tmp_path, model, schedule="constant", learning_rate=0.5, keep_checkpoints=1)
    losses = {row["step"]: row["loss"] for row in numbers(result.run_dir) if row["kind"] == "sft_eval" and row["step"]}
    best = min(losses, key=losses.get)
    assert result.summary["best_step"] == best
    assert result.after == losses[best]
    kept = {path.name for path in (result.run_dir / "checkpoints").iterdir()}
    assert kept == {f"step-{best:06d}", "step-000006"}


async def test_without_validation_the_last_step_is_the_result(tmp_path, model):
    result = await run(tmp_path, model, validation_share=0.0)
    assert (result.before, result.after, result.adapter.name) == (None, None, "step-000008")


class Killed(BaseException):
    """Ends a run like a kill: nothing after it is written."""


PLACES = [
    *((SftTrainer, "update", count) for count in range(1, 7)),
    *((MetricsLog, "append", count) for count in range(1, 11)),
    *((Learner, "save", count) for count in range(1, 5)),
    *((Learner, "mean_loss", count) for count in range(1, 4)),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory, model):
    return asyncio.run(run(tmp_path_factory.mktemp("whole"), model)).run_dir


@pytest.mark.parametrize(("owner", "method", "count"), PLACES)
async def test_t21_a_killed_run_ends_with_the_same_bytes(tmp_path, monkeypatch, model, whole, owner, method, count):
    original, calls = getattr(owner, method), []

    def killing(self, *args, **kwargs):
        calls.append(method)
        if len(calls) == count:
            raise Killed("killed")
        return original(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(owner, method, killing)
        with pytest.raises(BaseException, match="killed"):
            await run(tmp_path, model)
    (tmp_path / "data.jsonl").unlink()
    again = await resume(tmp_path / "run")
    assert numbers(again.run_dir) == numbers(whole)
    assert adapter_bytes(again.run_dir) == adapter_bytes(whole)


async def test_an_interrupt_finishes_the_step_and_can_be_resumed(tmp_path, monkeypatch, model, whole):
    original = SftTrainer.update

    def interrupting(self, *args):
        os.kill(os.getpid(), signal.SIGINT)
        return original(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(SftTrainer, "update", interrupting)
        cut = await run(tmp_path, model)
    assert (cut.stop_reason, cut.summary["steps"], cut.adapter.name) == ("interrupted", 1, "step-000001")
    again = await resume(cut.run_dir)
    assert adapter_bytes(again.run_dir) == adapter_bytes(whole)


async def test_the_time_it_may_take_ends_it_with_a_validation(tmp_path, model, whole):
    cut = await run(tmp_path, model, max_time=0.001)
    assert (cut.stop_reason, cut.summary["steps"]) == ("max_time", 1)
    assert cut.after is not None
    again = await resume(cut.run_dir, config=config(tmp_path, max_time=None))
    assert adapter_bytes(again.run_dir) == adapter_bytes(whole)


async def test_a_resumed_run_keeps_its_rows_and_settings(tmp_path, model):
    first = await run(tmp_path, model, epochs=1)
    with pytest.raises(InputError, match="a resumed run keeps its rows"):
        await resume(first.run_dir, data=tmp_path / "data.jsonl")
    with pytest.raises(InputError, match="epochs is 1 in the run and 5 now"):
        await resume(first.run_dir, config=config(tmp_path, epochs=5))
    with pytest.raises(InputError, match="it cannot go on with 'another'"):
        await resume(first.run_dir, base_model="another")


async def test_a_broken_loss_ends_the_run_and_is_recorded(tmp_path, monkeypatch, model):
    def broken(self, *args):
        raise NonFiniteError("the loss of a pack is nan")

    monkeypatch.setattr(SftTrainer, "update", broken)
    with pytest.raises(NonFiniteError, match="the loss of a pack is nan"):
        await run(tmp_path, model)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["stop_reason"], summary["checkpoint"]) == ("error", None)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"source": None}, "data is needed"),
        ({"model": None}, "base_model is needed"),
        ({"model": "nosuch"}, "unknown model 'nosuch'"),
        ({"lora": {"start": "nowhere"}}, "lora.start 'nowhere' is no directory"),
        ({"best": 2}, "best chooses among stored rollouts"),
        ({"max_row_tokens": 3}, "there is nothing to train on: 10 rows longer than a row may be"),
    ],
)
async def test_bad_input_makes_no_directory(tmp_path, model, given, problem):
    source = given.pop("source", data(tmp_path))
    chosen = given.pop("model", model)
    with pytest.raises(InputError, match=problem):
        await asft(source, base_model=chosen, config=config(tmp_path, **given), progress=quiet())
    assert not (tmp_path / "run").exists()


async def test_a_start_that_does_not_fit_leaves_no_directory(tmp_path, model):
    first = await run(tmp_path / "first", str(save_tiny(tmp_path / "other", "qwen3")), epochs=1)
    with pytest.raises(InputError, match="it cannot begin a run of"):
        await run(tmp_path, model, lora={"start": str(first.run_dir)})
    (first.adapter / "manifest.json").unlink()
    (first.adapter / "trainer.json").unlink()
    with pytest.raises(InputError, match="does not fit the model"):
        await run(tmp_path, model, lora={"start": str(first.adapter)})
    assert not (tmp_path / "run").exists()


async def test_a_run_that_cannot_be_opened_again_stays_as_it_is(tmp_path, model):
    first = await run(tmp_path, model, epochs=1)
    (first.run_dir / "metrics.jsonl").unlink()
    RunDir(first.run_dir).write_record(RunDir(first.run_dir).read_record() | {"base_model": "nosuch"})
    with pytest.raises(InputError, match="unknown model 'nosuch'"):
        await resume(first.run_dir)
    assert (first.run_dir / "rows" / "train.jsonl").is_file()


async def test_fine_tuning_begins_from_an_adapter_too(tmp_path, model):
    first = await run(tmp_path / "one", model)
    second = await run(tmp_path / "two", model, lora={"start": str(first.run_dir)})
    assert second.before == pytest.approx(first.after, rel=1e-5)
    record = tomllib.loads((second.run_dir / "run.toml").read_text())
    assert (record["config"]["lora"]["rank"], record["start"]["adapter"]) == (4, str(first.adapter))


async def test_the_rollouts_of_a_run_are_imitated_as_they_were_sampled(tmp_path, model):
    source = tmp_path / "rl"
    journal = source / "trajectories" / "step-000001.jsonl"
    write(journal, *(rollout(f"r{n}", n / 8, scenario=f"s{n % 4}", group=f"g{n % 4}") for n in range(8)))
    RunDir(source).write_record({"base_model": model})
    result = await run(tmp_path, model, source=source, best=1, validation_share=0.0)
    stored = Rows.read(result.run_dir / "rows").train
    assert [row.token_ids.tolist() for row in stored] == [[1, 2, 3, 72, 73, 257]] * 4
    assert result.summary["left_out"] == {"not_best": 4}
    with pytest.raises(InputError, match=r"were sampled by '.*model', not by 'smollm2-135m'"):
        await run(tmp_path / "b", "smollm2-135m", source=source)


async def test_what_is_left_out_is_told_and_stored(tmp_path, model):
    shown = quiet()
    notes = []
    shown.note = notes.append
    source = write(tmp_path / "d.jsonl", *(tool_chat(city) for city in CITIES), plain_chat("a", "b", train=False))
    await asft(source, base_model=model, config=config(tmp_path, epochs=1), progress=shown)
    assert "left out: 1 with no message or token to train" in notes
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["left_out"] == {"nothing_to_train": 1}


async def test_the_report_shows_the_losses(tmp_path, model):
    result = await run(tmp_path, model)
    page = write_report(result.run_dir).read_text()
    assert f"The loss on held-out rows fell from {result.before:.3f} to {result.after:.3f}." in page
    assert "<figcaption>Loss</figcaption>" in page
    (result.run_dir / "summary.json").unlink()
    assert "This run has no validation before and after." in write_report(result.run_dir).read_text()


async def test_training_an_agent_does_not_go_on_with_it(tmp_path, model):
    result = await run(tmp_path, model, epochs=1)
    with pytest.raises(InputError, match=r"is supervised fine-tuning .* art train sft --resume"):
        await atrain(say, reward=lambda t, s: 0.0, resume=result.run_dir, progress=quiet())
    RunDir(result.run_dir).write_record({"base_model": model})
    with pytest.raises(InputError, match="is no supervised fine-tuning; go on with: art train --resume"):
        await resume(result.run_dir)


async def test_reinforcement_continues_from_it(tmp_path, model):
    tuned = await run(tmp_path, model)
    settings = {"precision": "float32", "rollout": {"max_tokens": 6}, "lora": {"start": str(tuned.run_dir)}}
    backend = EmbeddedBackend(model, TrainConfig.build(settings))
    samples, _ = rows(await groups_of(backend, PolicyVersion("default", 0)))
    learner = Learner(model, config(tmp_path), updates=1)
    load_adapter(tuned.adapter, learner._trainer.model)
    for sample, alone in zip(samples, learner._trainer.logprobs(samples), strict=True):
        assert sample.version == PolicyVersion("default", 0)
        assert sample.logprobs[sample.mask] == pytest.approx(alone[sample.mask], abs=1e-4)
    await backend.close()


async def test_a_run_of_an_agent_begins_from_it(tmp_path, model):
    tuned = await run(tmp_path, model)
    settings = TrainConfig.build(
        {
            "steps": 1,
            "name": "rl",
            "out": str(tmp_path),
            "precision": "float32",
            "lora": {"start": str(tuned.run_dir)},
            "rollout": {"group_size": 2, "scenarios_per_step": 1, "max_tokens": 8},
            "evaluation": {"validation": 0, "test": 0},
        }
    )
    reward = lambda trajectory, scenario: float(len(str(trajectory.output)))  # noqa: E731
    result = await atrain(say, ["What is Oslo?"], reward, base_model=model, config=settings, progress=quiet())
    copied = read_adapter(result.run_dir / "start-adapter").factors
    tuned_to = read_adapter(tuned.adapter).factors
    assert all(torch.equal(up, tuned_to[module][1]) for module, (_, up) in copied.items())


async def test_in_a_running_loop_the_async_form_is_named(tmp_path, model):
    with pytest.raises(InputError, match=r"await art\.asft"):
        sft(data(tmp_path), base_model=model)


def test_a_run_is_a_function_call(tmp_path, model):
    assert (
        sft(data(tmp_path), base_model=model, config=config(tmp_path, epochs=1), progress=quiet()).stop_reason
        == "steps"
    )


def test_steps_of_a_run_are_epochs_of_its_rows(tmp_path):
    settings = config(tmp_path)
    fields = dict.fromkeys(("learner", "directory", "log", "progress", "interrupt", "clock", "began"))
    assert SftRun(config=settings, rows=Rows(train=(None,) * 7), **fields).steps == 6


async def test_a_resumed_run_computes_in_the_precision_it_began_in(tmp_path, monkeypatch, model):
    first = await run(tmp_path, model, epochs=1, precision="auto", max_time="1h")
    (run_dir,) = [first.run_dir]
    began = RunDir(run_dir).read_record()["environment"]["computing"]["precision"]
    other = "float32" if began == "bfloat16" else "bfloat16"
    monkeypatch.setattr("art_core.supervised.learner.choose_precision", lambda wish: other if wish == "auto" else wish)
    again = await resume(run_dir, config=SftConfig(max_time="2h"))
    assert again.summary["machine"]["precision"] == began
    assert RunDir(run_dir).read_record()["config"]["max_time"] == 7200.0


def test_what_only_sampling_needs_is_no_option():
    with pytest.raises(InputError, match="unknown option 'deterministic'"):
        SftConfig.build(deterministic=True)
