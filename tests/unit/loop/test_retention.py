"""What is kept: the newest, the best by the metric that was named, and everything while nothing was compared."""

from __future__ import annotations

import dataclasses
import io
import math
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from art_core.errors import InputError
from art_core.loop.config import TrainConfig
from art_core.loop.figures import REPORTED, TRAIN, VALIDATION, mean_parts
from art_core.loop.retention import best_step, kept_steps, without_figure
from art_core.loop.run import atrain
from art_core.loop.rundir import RunDir
from art_core.observe.metrics import read_metrics
from art_core.observe.progress import Progress
from art_core.trajectory.trajectory import Reward

from .fake import SCENARIOS, FakeBackend, agent, config, quiet, report, reward


def train(step, **figures):
    return {"kind": "train", "step": step, "updated": True, **figures}


def validation(step, label="step", **figures):
    return {"kind": "eval", "split": "validation", "label": label, "step": step, "n": 10, **figures}


def test_without_a_metric_success_decides_then_reward_then_the_later_step():
    rows = [validation(5, success=0.5, reward=0.9), validation(10, success=0.6, reward=0.2)]
    assert best_step(rows) == 10
    rows += [validation(15, success=0.6, reward=0.3), validation(20, success=0.6, reward=0.3)]
    assert best_step(rows) == 20


def test_there_is_no_best_without_a_validation_of_trained_weights():
    assert best_step([validation(0, label="before", success=1.0)]) is None
    assert best_step([validation(5, success=None, reward=None)]) is None


def test_the_adapter_that_a_run_began_from_may_be_the_best():
    rows = [validation(0, "before", success=0.9), validation(0, "warm-start", success=0.4), validation(5, success=0.3)]
    assert best_step(rows, first=0) == 0
    assert best_step([*rows, validation(10, success=0.4)], first=0) == 10
    assert best_step([train(1, reward_mean=0.9), train(2, reward_mean=0.4)], "reward_mean", first=0) == 0
    assert kept_steps(rows, [0, 1, 2, 3, 4, 5], step=5, keep=2, first=0) == {0, 4, 5}


def test_a_named_metric_decides_alone_and_less_may_be_better():
    rows = [validation(5, success=0.9, reward=0.1), validation(10, success=0.2, reward=0.8)]
    assert best_step(rows, "success") == 5
    assert best_step(rows, "reward") == 10
    assert best_step(rows, "reward", "min") == 5


def test_a_training_row_speaks_of_the_checkpoint_its_step_began_with():
    rows = [train(1, reward_mean=0.9), train(2, reward_mean=0.4), train(3, reward_mean=0.6), train(4, reward_mean=0.1)]
    assert best_step(rows, "reward_mean") == 2
    assert best_step(rows, "reward_mean", "min") == 3
    assert best_step(rows[:1], "reward_mean") is None


def test_one_name_in_two_kinds_of_rows_is_that_of_validations_unless_told():
    rows = [train(1, success=0.1), train(2, success=0.9), train(3, success=0.3), validation(2, success=0.5)]
    assert (best_step(rows, "success"), best_step(rows, "train.success")) == (2, 1)


def test_a_part_of_the_reward_decides():
    rows = [validation(2, reward_parts={"format": 0.7, "values": 0.1}), validation(4, reward_parts={"format": 0.2})]
    assert best_step(rows, "reward_parts.format") == 2
    assert best_step(rows, "reward_parts.values") == 2


@pytest.mark.parametrize("value", [None, math.nan, math.inf, "0.9", True])
def test_what_is_no_finite_number_is_no_figure(value):
    assert best_step([validation(2, reward=0.1), validation(4, reward=value)], "reward") == 2


def test_only_what_is_on_disk_can_be_chosen():
    rows = [validation(2, reward=0.9), validation(4, reward=0.5), validation(6, reward=0.1)]
    assert best_step(rows, "reward", among=[4, 6]) == 4


def kept(rows, on_disk, step, keep, metric=None, mode="max"):
    return sorted(kept_steps(rows, on_disk, step=step, keep=keep, metric=metric, mode=mode))


def test_the_newest_and_the_best_are_kept():
    rows = [validation(2, reward=0.9), validation(4, reward=0.5)]
    assert kept(rows, [1, 2, 3, 4, 5], 5, 2, "reward") == [2, 4, 5]
    assert kept(rows, [1, 2, 3, 4, 5], 5, 2, "reward", "min") == [4, 5]


def test_while_nothing_was_measured_nothing_is_deleted():
    assert kept([validation(2, reward=None)], [1, 2, 3], 3, 1, "reward") == [1, 2, 3]
    assert kept([], [1, 2, 3], 3, 1, "reward") == [1, 2, 3]
    assert kept([validation(2, reward=None, success=None)], [1, 2, 3], 3, 1) == [1, 2, 3]


def test_without_validation_and_without_a_metric_the_newest_are_enough():
    assert kept([train(1), train(2), train(3)], [1, 2, 3], 3, 1) == [3]


def test_a_checkpoint_beyond_the_present_step_counts_for_nothing():
    assert kept([validation(1, reward=0.5)], [1, 2, 3], 2, 1, "reward") == [1, 2, 3]
    assert kept([validation(2, reward=0.5)], [1, 2, 3], 2, 1, "reward") == [2, 3]


def test_a_metric_no_row_has_is_told_with_those_there_are():
    rows = [validation(2, reward=0.5, success=None, reward_parts={"format": 1.0})]
    assert without_figure(rows, "reward_parts.formt") == (
        "best_metric 'reward_parts.formt' is missing or not finite in all validations so far, so no checkpoint is the best "
        "and none is deleted; they do have reward, n, reward_parts.format"
    )
    assert without_figure(rows, "reward") is None
    assert without_figure([], "reward") is None


@pytest.mark.parametrize(
    "name", ["rewrd", "seconds_train", "train.reward", "validation.loss", "reward.x", "", "train."]
)
def test_a_name_that_cannot_exist_is_refused_with_the_valid_ones(name):
    with pytest.raises(
        InputError, match=r"is no figure of a run; of validations there are reward, success, n, missing, of"
    ):
        TrainConfig.build({"best_metric": name})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"best_mode": "min"}, "best_mode = 'min' has no effect without best_metric"),
        ({"best_metric": "reward", "evaluation": {"validation": 0}}, "best_metric 'reward' needs validation scenarios"),
        ({"best_metric": "kl_base"}, "measured only with training.kl_coefficient above 0"),
    ],
)
def test_a_metric_that_will_never_be_measured_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        TrainConfig.build(options)


def test_the_mean_of_a_part_is_over_the_rollouts_that_have_it():
    assert mean_parts([{"a": 1.0, "b": math.nan}, {"a": 0.0}, {}]) == {"a": 0.5, "b": None}


FIGURE = st.sampled_from([None, math.nan, 0.0, 0.25, 0.5, 1.0])


class Simulated:
    """A run's rows and disk, as ``TrainingRun`` writes them; ``crash`` ends a step somewhere and begins anew."""

    def __init__(self, *, keep, every, metric, mode):
        self.keep, self.every, self.metric, self.mode = keep, every, metric, mode
        self.rows, self.disk, self.step = [], set(), 0

    def prune(self):
        before = set(self.disk)
        self.disk = kept_steps(self.rows, self.disk, step=self.step, keep=self.keep, metric=self.metric, mode=self.mode)
        best = best_step(self.rows, self.metric, self.mode)
        assert set(sorted(before)[-self.keep :]) <= self.disk
        assert best is None or best in self.disk
        assert self.metric is None or best is not None or self.disk == before

    def take_step(self, figures, crash):
        number = self.step + 1
        self.disk.add(number)
        row = train(number, reward_mean=figures[0])
        if crash == "before the row":
            self.prune_on_resume(number, row)
        else:
            self.step = number
            self.rows.append(row)
            if crash != "before pruning":
                self.prune()
            self.prune()  # where a resumed run begins
        if number % self.every == 0:
            self.rows.append(validation(number, reward=figures[1], success=figures[2]))
            self.prune()

    def prune_on_resume(self, number, row):
        self.step = number
        self.rows.append(row)
        self.prune()


@given(
    st.lists(
        st.tuples(st.tuples(FIGURE, FIGURE, FIGURE), st.sampled_from(["", "before the row", "before pruning"])),
        max_size=14,
    ),
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from(
        [(None, "max"), ("reward", "min"), ("success", "max"), ("reward_mean", "max"), ("reward_mean", "min")]
    ),
)
def test_the_best_and_the_newest_are_always_there_and_a_crash_changes_nothing(steps, keep, every, by):
    """T21: a run that was cut anywhere keeps and chooses what an uninterrupted one does."""
    whole, cut = (Simulated(keep=keep, every=every, metric=by[0], mode=by[1]) for _ in range(2))
    for figures, crash in steps:
        whole.take_step(figures, "")
        cut.take_step(figures, crash)
        assert cut.disk == whole.disk
    assert best_step(cut.rows, *by, among=cut.disk) == best_step(whole.rows, *by)


async def run(tmp_path, *, resume=None, reward=reward, progress=None, backend=None, **more):
    return await atrain(
        agent,
        None if resume else SCENARIOS,
        reward,
        backend=backend or FakeBackend(rate=0.0),
        config=config(tmp_path, **more),
        resume=resume,
        progress=progress or quiet(),
    )


def on_disk(result):
    return RunDir(result.run_dir).checkpoint_steps()


class Told(Progress):
    """Keeps what it was warned of."""

    def __init__(self):
        super().__init__(quiet=True, out=io.StringIO(), err=io.StringIO())
        self.warnings = []

    def warn(self, text):
        self.warnings.append(text)


class Diverging(FakeBackend):
    """Reports a ``kl_behaviour`` of its own at each step."""

    def __init__(self, values):
        super().__init__(rate=0.0)
        self.values = values

    def train(self, samples, advantages, on_progress=None):
        super().train(samples, advantages, on_progress)
        told = report(rows=len(samples), tokens=1)
        return dataclasses.replace(told, kl_behaviour=self.values[len(self.trained) - 1])


async def test_the_adapter_chosen_by_a_training_figure_is_the_one_measured(tmp_path):
    backend = Diverging([0.9, 0.5, 0.1, 0.7, 0.6])
    result = await run(
        tmp_path, backend=backend, steps=5, keep_checkpoints=1, best_metric="kl_behaviour", best_mode="min"
    )
    assert (result.summary["best_step"], result.summary["checkpoint"]) == (2, "checkpoints/step-000002")
    assert (result.after.version, on_disk(result)) == ("default@2", [2, 5])


async def test_a_misspelt_part_deletes_nothing_and_is_told_once(tmp_path):
    def parted(trajectory, scenario):
        return Reward(float(trajectory.output == "yes"), parts={"format": 1.0})

    shown = Told()
    result = await run(
        tmp_path, steps=5, reward=parted, keep_checkpoints=1, best_metric="reward_parts.formt", progress=shown
    )
    assert on_disk(result) == [1, 2, 3, 4, 5]
    assert result.summary["best_step"] == 5
    (told,) = [text for text in shown.warnings if "formt" in text]
    assert told.endswith("they do have reward, n, missing, reward_parts.format")


async def test_a_resumed_run_may_keep_by_another_metric_among_what_is_left(tmp_path):
    first = await run(tmp_path, steps=4, keep_checkpoints=2)
    again = await run(tmp_path, resume=first.run_dir, steps=6, best_metric="reward_mean", best_mode="min")
    assert again.summary["best_step"] in on_disk(again)
    assert RunDir(again.run_dir).read_record()["config"]["best_metric"] == "reward_mean"


async def test_a_lost_best_checkpoint_is_told_and_the_best_one_left_is_used(tmp_path):
    first = await run(tmp_path, backend=Diverging([0.9, 0.5, 0.1, 0.7]), steps=4, best_metric="kl_behaviour")
    assert (first.summary["best_step"], on_disk(first)) == (3, [2, 3, 4])
    shutil.rmtree(first.run_dir / "checkpoints" / "step-000003")
    shown = Told()
    again = await run(tmp_path, resume=first.run_dir, steps=4, best_metric="kl_behaviour", progress=shown)
    assert again.summary["best_step"] == 2
    assert "step 3 is the best by kl_behaviour, but its checkpoint is gone or damaged; step 2 is used" in shown.warnings


async def test_what_is_measured_on_validation_needs_some(tmp_path):
    with pytest.raises(InputError, match="best_metric = 'reward' needs validation scenarios, and there are none"):
        await atrain(
            agent,
            SCENARIOS,
            reward,
            backend=FakeBackend(),
            config=config(tmp_path, best_metric="reward"),
            validation=[],
            progress=quiet(),
        )
    assert not (tmp_path / "run").exists()


async def test_the_figures_that_can_be_named_are_those_the_rows_have(tmp_path):
    result = await run(tmp_path, steps=2)
    rows = read_metrics(result.run_dir / "metrics.jsonl")
    clock = {"time_s", "step", "tokens_per_s", "updated"}
    for kind, known in (("train", TRAIN), ("eval", VALIDATION)):
        row = next(row for row in rows if row["kind"] == kind)
        numbers = {
            name
            for name, value in row.items()
            if (isinstance(value, int | float) or name in REPORTED) and name not in clock and "seconds" not in name
        }
        assert numbers == set(known)
