import json
import re
from html.parser import HTMLParser

import pytest

from art_core.errors import InputError
from art_core.observe.report import write_report
from art_core.trajectory import store

from .run_builder import ToyTokenizer, build_run, rollout

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """Collects tags, attributes and text; fails on tags that do not close."""

    def __init__(self, text):
        super().__init__()
        self.stack, self.tags, self.text = [], [], ""
        self.feed(text)
        assert self.stack == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        self.text += data

    def marked(self, css):
        return [attrs for tag, attrs in self.tags if css in (attrs.get("class") or "").split()]


@pytest.fixture
def run(tmp_path):
    return tmp_path / "demo"


def page(run, tokenizer=None):
    return Page(write_report(run, tokenizer and tokenizer.decode).read_text())


def test_a_finished_run_becomes_one_page_with_its_verdict(run):
    found = page(run, build_run(run))
    assert "Success on held-out test scenarios rose from 3.3 % to 53.3 %." in found.text
    assert "4 improved, 4 did not change and 0 got worse" in found.text
    assert len(found.marked("chart")) == 6


def test_a_curriculum_and_forks_are_shown_where_there_were_any(run):
    tokenizer = build_run(run)
    path = run / "metrics.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        if row["kind"] == "train":
            row["forks"] = {"the history was edited": 2} if row["step"] < 3 else {}
            row["curriculum"] = {"groups": {}, "seen": 10 * (row["step"] > 1), "rarely": 3}
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = write_report(run, tokenizer.decode).read_text()
    assert len(Page(text).marked("chart")) == 7
    assert "step 2: 3 of 10 scenarios" in text
    assert "turns that did not extend their ids" in text
    assert "step 1: 0 of 0 scenarios" not in text


def test_the_page_loads_nothing_and_runs_nothing(run):
    found = page(run, build_run(run))
    assert not {tag for tag, _ in found.tags} & {"script", "link", "img", "iframe", "object", "form"}
    assert not [a for _, attrs in found.tags for a in attrs if a in ("src", "href", "style") or a.startswith("on")]
    assert "url(" not in (run / "report.html").read_text()


def test_a_run_without_a_gain_says_so(run):
    found = page(run, build_run(run, lift=0.0))
    assert "No reliable change" in found.text


def test_what_a_model_or_tool_wrote_cannot_become_markup(run):
    tokenizer = ToyTokenizer()
    evil = '</span><script>alert(1)</script>" onclick=x <img src=y>'
    for name in ("eval-before", "eval-after"):
        one = rollout(tokenizer, evil, evil, evil, result=evil, error=evil)
        one.stop_reason, one.error, one.reward_parts, one.reward_reason = evil, evil, {evil: 1.0}, evil
        store.append(run / "trajectories" / f"{name}.jsonl", one)
    found = page(run, tokenizer)
    assert evil in found.text
    assert not {tag for tag, _ in found.tags} & {"script", "img"}


def test_pieces_are_kept_so_that_a_later_report_needs_no_tokenizer(run):
    write_report(run, build_run(run).decode)
    first = (run / "report.html").read_text()
    assert write_report(run).read_text() == first


def test_without_pieces_rollouts_are_shown_as_messages(run):
    build_run(run)
    found = page(run)
    assert "shown as messages" in found.text
    assert found.marked("tokens") == []
    assert "Done – it is 14:00 ☕." in found.text


def test_trained_tokens_are_marked_and_greedy_ones_are_not(run):
    tokenizer = ToyTokenizer()
    rollouts = [rollout(tokenizer, f"s-{greedy}", "q", "abc", reward=1.0 - greedy, greedy=greedy) for greedy in (0, 1)]
    for one in rollouts:
        one.group_id = "g"
        store.append(run / "trajectories" / "step-000001.jsonl", one)
    shown = [attrs for attrs in page(run, tokenizer).marked("t") if "title" in attrs]
    joined = 2 * 2  # the dash and the cup, three ids each, are shown as one
    assert [len(shown), sum("on" in attrs["class"] for attrs in shown)] == [2 * (20 - joined), 20 - joined]


def test_characters_of_several_tokens_are_shown_whole(run):
    build_run(run, tokenizer=(tokenizer := ToyTokenizer()))
    text = page(run, tokenizer).text
    assert "☕" in text
    assert "\ufffd" not in text


@pytest.mark.parametrize("name", ["run.toml", "metrics.jsonl", "summary.json", "pieces.json"])
@pytest.mark.parametrize("damage", [None, b"\xff\x00{", b"[]", b"{}"])
def test_a_missing_or_damaged_file_never_stops_the_report(run, name, damage):
    write_report(run, build_run(run).decode)
    if damage is None:
        (run / name).unlink()
    else:
        (run / name).write_bytes(damage)
    assert page(run).text


def test_what_is_missing_is_said(run):
    build_run(run)
    (run / "summary.json").unlink()
    (run / "metrics.jsonl").unlink()
    text = page(run).text
    assert "summary.json is missing: the run has not ended, or did not end by itself." in text
    assert "metrics.jsonl is missing; there are no curves." in text


def test_a_cut_record_is_counted_and_the_others_are_shown(run):
    tokenizer = build_run(run)
    path = run / "trajectories" / "eval-after.jsonl"
    path.write_bytes(path.read_bytes()[:-50])
    text = page(run, tokenizer).text
    assert "eval-after.jsonl: 1 record was cut off and left out." in text
    assert "4 improved, 3 did not change" in text


def test_a_run_killed_in_its_first_step_has_a_report(run):
    build_run(run)
    for path in (run / "summary.json", *run.glob("trajectories/*")):
        path.unlink()
    lines = (run / "metrics.jsonl").read_text().splitlines()
    (run / "metrics.jsonl").write_text(lines[0] + "\n" + lines[1][:40])
    assert "This run has no final evaluation." in page(run).text


def test_the_ledger_of_an_unfinished_run_is_the_sum_of_its_steps(run):
    build_run(run, steps=3)
    total = json.loads((run / "summary.json").read_text())["ledger"]["tokens"]["sampled"]
    (run / "summary.json").unlink()
    assert f"{total:,}" in page(run).text


def test_a_long_run_is_capped_with_a_note(run):
    found = page(run, build_run(run, steps=600))
    assert "The first 400 steps are left out" in found.text
    assert (run / "report.html").stat().st_size < 2_000_000


def test_a_long_completion_is_capped_with_a_count(run):
    tokenizer = ToyTokenizer()
    store.append(run / "trajectories" / "step-000001.jsonl", rollout(tokenizer, "s-0", "q", "a1" * 1500))
    found = page(run, tokenizer)
    assert re.search(r"1,\d\d\d more tokens are not shown", found.text)


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_a_directory_that_is_no_run_is_refused(tmp_path, name):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="is not a run directory"):
        write_report(tmp_path / name)
