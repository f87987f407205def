"""What a judge is worth: agreement with a known ranking, the pull of the first place, how far it tells apart, and what it costs."""

from __future__ import annotations

import json

import pytest

from art_core.errors import InputError
from art_core.judging.agreement import Agreement, agreement, calibrate, read_gold
from art_core.judging.ruler import Ruler

from .rollouts import attempts_in, by_words, verdict

LINE = {
    "input": "What time is it?",
    "attempts": [
        {"text": "It is noon.", "score": 1},
        {"text": "It is late.", "score": 0.5},
        {"text": "I dunno.", "score": 0},
    ],
}


@pytest.fixture
def gold(tmp_path):
    path = tmp_path / "gold.jsonl"
    path.write_text("".join(json.dumps({**LINE, "input": f"{n}: {LINE['input']}"}) + "\n" for n in range(20)))
    return read_gold(path)


def test_pairs_that_are_known_to_differ_count_and_ties_count_half():
    assert agreement([([0, 1], [0.2, 0.9]), ([0, 1], [0.9, 0.2])]) == Agreement(share=0.5, pairs=2)
    assert agreement([([0, 1], [0.5, 0.5])]) == Agreement(share=0.5, pairs=1)
    assert agreement([([1, 1, None], [0.1, 0.9, 0.5])]) == Agreement(share=None, pairs=0)


async def test_a_judge_that_is_right_agrees_with_the_gold(gold):
    found = await calibrate(Ruler(by_words({"noon": 0.9, "late": 0.4}), votes=2), gold)
    assert (found.groups, found.unscored) == (20, 0)
    assert found.agreement == Agreement(share=1.0, pairs=60)
    assert found.position_bias == pytest.approx(0.0)
    assert found.spread == pytest.approx(0.9)
    assert found.usd_per_group is None


async def test_a_judge_that_likes_what_it_reads_first_is_found_out(gold):
    def lazy(messages):
        return verdict({name: 1.0 if place == 0 else 0.2 for place, name in enumerate(attempts_in(messages))})

    found = await calibrate(Ruler(lazy, votes=6, price=(1, 1)), gold)
    assert found.position_bias == pytest.approx(0.8, abs=0.2)
    assert found.agreement.share == pytest.approx(0.5, abs=0.2)
    assert found.usd_per_group > 0


async def test_groups_without_usable_scores_are_counted(gold):
    found = await calibrate(Ruler(lambda messages: "no", attempts=1), gold)
    assert (found.groups, found.unscored, found.agreement.share, found.spread) == (0, 20, None, None)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "gold.jsonl:1 is not of the form"),
        (json.dumps({"input": "q"}), "KeyError\\('attempts'\\)"),
        (json.dumps({"input": "q", "attempts": [{"text": "a"}]}), "KeyError\\('score'\\)"),
        (json.dumps({"input": "q", "attempts": [{"text": "a", "score": 1}]}), "needs at least two attempts"),
        (
            json.dumps({"input": "q", "attempts": [{"text": "a", "score": 1}, {"text": "a", "score": 0}]}),
            "no two that are the same",
        ),
        ("", "holds no group"),
    ],
)
def test_a_line_of_another_form_is_named(tmp_path, line, message):
    (tmp_path / "gold.jsonl").write_text(line)
    with pytest.raises(InputError, match=message):
        read_gold(tmp_path / "gold.jsonl")
