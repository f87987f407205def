"""What ``art eval --compare`` found stays with a run that goes on while it is about the run's adapter; else that is told."""

from __future__ import annotations

import io
import json

import pytest

from art_core.loop.comparison import TRAINED, compared, keep, trained_rollouts
from art_core.loop.run import atrain
from art_core.loop.rundir import RunDir
from art_core.loop.training_run import TrainingRun
from art_core.observe.progress import Progress

from .fake import SCENARIOS, FakeBackend, agent, config, quiet, reward

LEFT_OUT = "the comparison is left out of summary.json"
RATE = 0.15
"""Of learning: so slow that the validation after step 4 is better than that after step 2."""
LOWEST = {"best_metric": "reward", "best_mode": "min"}
"""Makes the checkpoint that was the result of a shorter run that of a longer one too."""


class Killed(BaseException):
    """Ends a run like a kill: nothing after it is written."""


async def compare(tmp_path, **more):
    """A run of two steps, compared with a model that happens to answer as its adapter does; its directory and the entries."""
    done = await atrain(
        agent,
        SCENARIOS,
        reward,
        backend=FakeBackend(rate=RATE),
        config=config(tmp_path, steps=2, **more),
        progress=quiet(),
    )
    directory = RunDir.open(done.run_dir)
    rollouts = trained_rollouts(directory)
    entries = [compared(name, rollouts, rollouts, {}) for name in (TRAINED, "original")]
    return directory, json.loads(json.dumps(keep(directory, entries)))


async def resume(directory, tmp_path, *, rate=RATE, **more):
    """Go on with the run; what it told."""
    told = io.StringIO()
    await atrain(
        agent,
        reward=reward,
        backend=FakeBackend(rate=rate),
        resume=directory.path,
        config=config(tmp_path, **more),
        progress=Progress(quiet=True, out=io.StringIO(), err=told),
    )
    return told.getvalue()


async def test_a_run_that_had_nothing_left_to_do_keeps_it(tmp_path):
    directory, entries = await compare(tmp_path)
    told = await resume(directory, tmp_path, steps=2)
    assert directory.read_summary()["compare"] == entries
    assert LEFT_OUT not in told


async def test_a_run_that_goes_on_keeps_it_while_its_adapter_is_the_same(tmp_path):
    directory, entries = await compare(tmp_path, **LOWEST)
    told = await resume(directory, tmp_path, steps=4, **LOWEST)
    summary = directory.read_summary()
    assert (summary["steps"], summary["best_step"], summary["compare"]) == (4, 2, entries)
    assert LEFT_OUT not in told


async def test_that_of_an_adapter_that_is_not_the_runs_any_more_is_left_out_and_told(tmp_path):
    directory, _ = await compare(tmp_path)
    told = await resume(directory, tmp_path, steps=4)
    summary = directory.read_summary()
    assert (summary["best_step"], "compare" in summary) == (4, False)
    assert f"{LEFT_OUT}: it is about the adapter in checkpoints/step-000002" in told
    assert f"art eval {directory.path} --compare original" in told


async def test_an_adapter_of_the_same_step_with_other_weights_is_another_one(tmp_path):
    directory, _ = await compare(tmp_path)
    (directory.checkpoint(2) / "state.json").write_text("damaged")  # so that step 2 is trained again
    told = await resume(directory, tmp_path, rate=0.2, steps=2)
    assert directory.read_summary()["best_step"] == 2
    assert "compare" not in directory.read_summary()
    assert LEFT_OUT in told


async def test_a_kill_while_the_run_goes_on_loses_nothing(tmp_path, monkeypatch):
    directory, entries = await compare(tmp_path, **LOWEST)

    write = TrainingRun.write

    def killed(self, kind, **values):
        if kind == "train":
            raise Killed
        write(self, kind, **values)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingRun, "write", killed)
        with pytest.raises(Killed):
            await resume(directory, tmp_path, steps=4, **LOWEST)
    assert directory.read_summary() is None
    await resume(directory, tmp_path, steps=4, **LOWEST)
    assert directory.read_summary()["compare"] == entries


async def test_a_damaged_file_is_told_and_ends_no_run(tmp_path):
    directory, _ = await compare(tmp_path)
    (directory.path / "compare.json").write_text("{")
    told = await resume(directory, tmp_path, steps=2)
    assert "the comparison is left out" in told
    assert "compare" not in directory.read_summary()
