import io
import json
from pathlib import Path

import pytest

from art_core.messages import ToolSpec
from art_core.observe.formats import duration
from art_core.observe.ledger import Ledger
from art_core.observe.progress import Progress

ROW = {
    "kind": "train",
    "step": 3,
    "reward_mean": 0.4124,
    "success": 0.25,
    "trained_tokens": 1234,
    "tokens_per_s": 412.4,
}
BEFORE = {"success": 0.1, "reward": 0.2, "n": 60, "ci95": [0.05, 0.2], "measure": "success"}
AFTER = {"success": 0.5, "reward": 0.6, "n": 60, "ci95": [0.4, 0.6], "measure": "success"}
GAIN = {"measure": "success", "difference": 0.4, "ci95": [0.25, 0.55], "n": 60, "method": "newcombe-paired"}
SUMMARY = {"before": BEFORE, "after": AFTER, "gain": GAIN}


def make(**options):
    out, err = io.StringIO(), io.StringIO()
    return Progress(out=out, err=err, **options), out, err


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def run_steps(progress, clock, *, steps=10, seconds=10.0, max_seconds=None):
    progress.run_started(title="t", facts={}, steps=steps, max_seconds=max_seconds)
    progress.step_started(1, 8)
    clock.now += seconds
    progress.step_done({**ROW, "step": 1})


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0s"), (-3, "0s"), (59.4, "59s"), (59.6, "1m00s"), (130, "2m10s"), (3599.7, "1h00m"), (3840, "1h04m")],
)
def test_durations_read_well(seconds, text):
    assert duration(seconds) == text


def test_a_step_is_one_plain_line():
    progress, out, _ = make()
    progress.run_started(title="t", facts={}, steps=3)
    out.truncate(0)
    progress.step_started(3, 8)
    progress.rollout_done()
    progress.training(1, 2)
    progress.step_done({**ROW, "grad_norm": 0.301})
    line = out.getvalue().strip("\0\n")
    assert line == "step 3/3 │ reward 0.412 │ success  25 % │ trained  1,234 tok │   412 tok/s │ grad 0.30"


def test_a_step_that_trained_nothing_shows_dashes():
    progress, out, _ = make()
    progress.step_done({"step": 1, "reward_mean": None, "success": None, "grad_norm": None, "tokens_per_s": None})
    assert "reward – │ success     – │ trained      0 tok │     0 tok/s │ grad –" in out.getvalue()


def test_the_time_left_follows_the_steps():
    clock = Clock()
    progress, out, _ = make(clock=clock)
    run_steps(progress, clock)
    assert "~1m30s left" in out.getvalue()


def test_the_time_left_ends_with_the_time_allowed():
    clock = Clock()
    progress, out, _ = make(clock=clock)
    run_steps(progress, clock, max_seconds=30)
    assert "~20s left" in out.getvalue()


def test_no_line_is_wider_than_100_columns():
    progress, out, _ = make()
    tool = ToolSpec(name="n" * 70, description="d" * 300, parameters={"properties": {"a" * 50: {}, "b" * 50: {}}})
    progress.run_started(title="title " * 40, facts={"run": "x" * 300}, steps=100)
    progress.tools([tool], source="server")
    progress.step_started(99, 1)
    progress.step_done({**ROW, "step": 99, "trained_tokens": 123456, "tokens_per_s": 12345.0, "grad_norm": 12.5})
    progress.evaluated({**AFTER, "label": "step", "split": "validation", "step": 99})
    progress.finished(SUMMARY)
    assert max(map(len, out.getvalue().splitlines())) <= 100


def test_tools_show_their_arguments_and_first_line():
    progress, out, _ = make()
    parameters = {"properties": {"city": {}, "unit": {}}, "required": ["city"]}
    progress.tools([ToolSpec(name="weather", description="Look it up.\nMore.", parameters=parameters)], source="mcp")
    text = out.getvalue()
    assert "Tools as discovered from mcp (1)" in text
    assert "city, unit?" in text
    assert "More." not in text


def test_markup_in_foreign_text_is_shown_as_it_is():
    progress, out, _ = make()
    progress.note("[red]array[0][/red] :smile:")
    assert out.getvalue() == "[red]array[0][/red] :smile:\n"


def test_an_evaluation_of_rewards_shows_the_interval_there():
    progress, out, _ = make()
    row = {"label": "before", "split": "test", "n": 4, "reward": 0.5, "ci95": [0.1, 0.9], "measure": "reward"}
    progress.evaluated(row)
    assert out.getvalue() == "eval before  │ test, 4 rollouts │ reward 0.500 [0.100, 0.900]\n"


def test_the_result_names_the_paired_difference_and_the_places():
    progress, out, _ = make()
    progress.finished(SUMMARY, run_dir=Path("runs/a"), report=Path("runs/a/report.html"))
    text = " ".join(out.getvalue().split())
    assert "before 10 % 0.200 [5 %, 20 %] 60" in text
    assert "paired difference +40 pts [+25 pts, +55 pts] 60" in text
    assert text.endswith("run runs/a report runs/a/report.html")


def test_a_gain_in_reward_stands_in_the_reward_column():
    progress, out, _ = make()
    gain = {"measure": "reward", "difference": -0.1, "ci95": [-0.2, 0.0], "n": 9}
    progress.finished({"before": {"reward": 0.2, "n": 9}, "after": {"reward": 0.1, "n": 9}, "gain": gain})
    assert "paired difference −0.100 [−0.200, +0.000] 9" in " ".join(out.getvalue().split())


def test_a_run_without_evaluation_says_so():
    progress, out, _ = make()
    progress.finished({"before": None, "after": None})
    assert "without an evaluation" in out.getvalue()


def test_json_mode_keeps_standard_output_for_the_summary():
    progress, out, err = make(as_json=True)
    progress.run_started(title="t", facts={}, steps=1)
    progress.step_done(ROW)
    progress.warn("careful")
    progress.finished(SUMMARY, run_dir=Path("runs/a"))
    assert json.loads(out.getvalue()) == SUMMARY
    assert "step 3" in err.getvalue()
    assert "careful" in err.getvalue()


def test_quiet_shows_the_result_alone_and_warnings_on_standard_error():
    progress, out, err = make(quiet=True)
    progress.run_started(title="the title", facts={}, steps=1)
    progress.evaluating("before", 3)
    progress.step_done(ROW)
    progress.warn("careful")
    progress.finished(SUMMARY)
    assert "title" not in out.getvalue()
    assert "step 3" not in out.getvalue()
    assert "paired difference" in out.getvalue()
    assert err.getvalue() == "warning: careful\n"


def test_quiet_json_prints_one_line():
    progress, out, err = make(quiet=True, as_json=True)
    progress.finished(SUMMARY)
    assert out.getvalue().count("\n") == 1
    assert err.getvalue() == ""


def test_the_ledger_is_printed_with_its_meaning():
    ledger = Ledger()
    ledger.add_rollout("no_spread", sampled_tokens=1234)
    progress, out, _ = make()
    progress.ledger(ledger)
    assert "no spread 1 1,234 all siblings scored the same: nothing to compare" in " ".join(out.getvalue().split())


def test_a_terminal_shows_the_running_phase():
    progress, out, _ = make(live=True)
    progress.run_started(title="t", facts={}, steps=2)
    progress.step_started(1, 4)
    progress.rollout_done()
    progress.training(1, 4)
    progress.step_done({**ROW, "step": 1})
    progress.close()
    progress.close()
    assert "step 1/2 · training" in out.getvalue()
    assert "25 %" in out.getvalue()
