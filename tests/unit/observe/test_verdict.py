import pytest

from art_core.observe.verdict import verdict

BEFORE = {"success": 0.1, "reward": 0.2, "n": 60}


def after(success, low, high):
    gain = {"measure": "success", "difference": success - 0.1, "ci95": [low, high]}
    return {"before": BEFORE, "after": {"success": success, "reward": 0.3, "n": 60}, "gain": gain}


@pytest.mark.parametrize(
    ("summary", "tone", "headline"),
    [
        (after(0.5, 0.2, 0.6), "gain", "Success on held-out test scenarios rose from 10 % to 50 %."),
        (after(0.0, -0.2, -0.01), "loss", "Success on held-out test scenarios fell from 10 % to 0 %."),
        (
            after(0.15, -0.02, 0.1),
            "open",
            "No reliable change: success on held-out test scenarios went from 10 % to 15 %.",
        ),
        (
            after(0.1, 0.0, 0.0),
            "open",
            "No reliable change: success on held-out test scenarios went from 10 % to 10 %.",
        ),
    ],
)
def test_the_headline_claims_what_the_interval_supports(summary, tone, headline):
    found = verdict(summary, [])
    assert (found.tone, found.headline) == (tone, headline)


def test_the_evidence_gives_the_interval_in_points():
    assert "+20.0 to +60.0 points" in verdict(after(0.5, 0.2, 0.6), []).evidence


def test_an_interval_with_zero_is_said_to_include_no_change():
    assert verdict(after(0.15, -0.02, 0.1), []).evidence.endswith(
        "−2.0 to +10.0 points, which includes no change at all."
    )


def test_without_success_the_reward_is_compared():
    gain = {"measure": "reward", "difference": 0.2, "ci95": [0.1, 0.3]}
    found = verdict({"before": {"reward": 0.1, "n": 9}, "after": {"reward": 0.3, "n": 9}, "gain": gain}, [])
    assert found.headline == "Mean reward on held-out test scenarios rose from 0.100 to 0.300."


def test_without_an_interval_nothing_is_said_about_chance():
    found = verdict({"before": BEFORE, "after": {"success": 0.5, "n": 60}}, [])
    assert (found.tone, "nothing about chance" in found.evidence) == ("open", True)


def test_an_aborted_run_says_what_is_missing():
    rows = [{"kind": "eval", "label": "before", "split": "test", "success": 0.1, "reward": 0.2}]
    found = verdict({}, rows)
    assert (found.tone, found.headline) == ("none", "This run has no final evaluation.")
    assert found.evidence == "Before training the success on held-out test scenarios was 10 %."


def test_a_validation_row_is_no_evidence():
    rows = [{"kind": "eval", "label": "before", "split": "validation", "success": 0.1}]
    assert verdict({}, rows).headline == "This run has no evaluation on held-out scenarios."


def test_who_measured_is_told_where_it_is_not_the_training_reward():
    summary = after(0.5, 0.2, 0.6) | {"measured_by": {"success": "right_calls", "reward": "a judge"}}
    assert verdict(summary, []).evidence.endswith("more than chance explains. Measured by right_calls.")
