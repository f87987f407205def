"""What was asked of other models, as a table."""

from __future__ import annotations

from art_core.observe.costs import COST_COLUMNS, costs
from art_core.rewards.account import Account


def row(**counts):
    return {"kind": "train", "judge": Account(**counts).to_dict()}


def test_the_judges_account_is_the_sum_of_the_rows():
    rows = [
        row(calls=3, refused=1, groups=2, input_tokens=1_500, output_tokens=90, usd=0.01),
        row(calls=1, failed=2, cached=4, unscored=1, input_tokens=500, output_tokens=10, usd=0.002),
        {"kind": "train"},
    ]
    assert dict(zip(COST_COLUMNS, *costs(rows, {}), strict=True)) == {
        "asked": "judge",
        "requests": "4",
        "not answered": "2",
        "not usable": "1",
        "known before": "4",
        "tokens in": "2,000",
        "tokens out": "100",
        "USD": "0.0120",
        "groups scored": "2",
        "groups without a score": "1",
    }


def test_who_wrote_the_scenarios_is_told_too():
    author = Account(calls=2, estimated_calls=2, input_tokens=800, output_tokens=70).to_dict()
    found = costs([], {"author": author, "grader": {"calls": 5, "groups": 5}})
    assert [cells[:2] for cells in found] == [["author of the scenarios", "2"], ["grader of their dry run", "5"]]
    assert found[0][5:8] == ["800 (2 estimated)", "70 (2 estimated)", "–"]


def test_where_nobody_was_asked_there_is_no_table():
    assert costs([{"kind": "train"}], {}) == []
