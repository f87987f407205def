"""Replies that judges give, and what becomes of each: read as it was meant, or refused in words the judge can be told."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from art_core.errors import JudgeError
from art_core.judging.reply import read_scores, reply_schema

from .malformed import MEANT, UNCLEAR


def scored(text):
    return {name: score.value for name, score in read_scores(text, ["A", "B"]).items()}


@pytest.mark.parametrize("text", MEANT)
def test_a_reply_in_another_form_is_read_as_it_is_meant(text):
    assert scored(text) == {"A": 0.9, "B": 0.1}


@pytest.mark.parametrize(("text", "told"), UNCLEAR)
def test_a_reply_whose_meaning_is_not_clear_is_refused_in_words(text, told):
    with pytest.raises(JudgeError, match=told):
        scored(text)


@given(
    st.dictionaries(st.sampled_from(["A", "B", "C"]), st.floats(0, 1), min_size=1),
    st.text(alphabet="ab {\n", max_size=20),
)
def test_what_a_judge_writes_comes_back_whatever_stands_before_it(given_scores, before):
    entries = [{"trajectory_id": name, "explanation": "}{", "score": value} for name, value in given_scores.items()]
    text = before.replace("{", "") + json.dumps({"scores": entries})
    assert {name: s.value for name, s in read_scores(text, list(given_scores)).items()} == given_scores


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_and_never_crashes(text):
    with contextlib.suppress(JudgeError):
        assert set(read_scores(text, ["A"])) == {"A"}


def test_the_schema_names_the_attempts():
    entry = reply_schema(["A", "B"])["properties"]["scores"]["items"]
    assert entry["properties"]["trajectory_id"]["enum"] == ["A", "B"]
