import pytest
from hypothesis import given
from hypothesis import strategies as st

from art_core.errors import InputError
from art_core.observe.ledger import ATTRIBUTES, FATES, MEANINGS, SOURCES, Ledger, LedgerError

rollouts = st.lists(
    st.tuples(st.sampled_from(FATES), st.sampled_from(SOURCES), st.integers(0, 500), st.booleans()), max_size=40
)


def entered(entries):
    ledger = Ledger()
    for fate, source, tokens, truncated in entries:
        trained = tokens // 2 if fate == "trained" else None
        counts = {"sampled_tokens": tokens, "trained_tokens": trained, "superseded_tokens": tokens // 3}
        ledger.add_rollout(fate, **counts, source=source, truncated=truncated)
    return ledger


@given(rollouts)
def test_whatever_rollouts_are_entered_the_ledger_balances(entries):
    ledger = entered(entries)
    ledger.check()
    assert ledger.total(SOURCES).rollouts == len(entries)
    assert ledger.total(FATES).tokens == sum(tokens for _, _, tokens, _ in entries)


@given(rollouts, rollouts)
def test_a_sum_counts_what_both_counted_and_balances(one, two):
    merged = entered(one) + entered(two)
    merged.check()
    assert merged.to_dict() == entered(one + two).to_dict()


@given(rollouts)
def test_the_stored_form_reads_back_equal(entries):
    ledger = entered(entries)
    assert Ledger.from_dict(ledger.to_dict()).to_dict() == ledger.to_dict()


@given(rollouts, st.sampled_from([*SOURCES, *FATES]), st.integers(1, 9))
def test_one_row_off_is_always_found(entries, row, extra):
    ledger = entered(entries)
    ledger.add(row, tokens=extra)
    with pytest.raises(LedgerError, match=f"{extra} tokens"):
        ledger.check()


@given(rollouts)
def test_settling_keeps_the_balance_and_every_fate_but_the_carrying(entries):
    ledger, settled = entered(entries), entered(entries).settled()
    settled.check()
    assert min(settled["carried_in"].rollouts, settled["carried_out"].rollouts) == 0
    assert all(settled[fate] == ledger[fate] for fate in FATES if fate != "carried_out")


def test_the_message_names_the_missing_rollouts():
    ledger = Ledger()
    ledger.add("sampled", rollouts=3, tokens=10)
    ledger.add("trained", rollouts=1, tokens=10)
    with pytest.raises(LedgerError, match="3 rollouts came in, 1 are accounted for; 2 rollouts without a fate"):
        ledger.check()


def test_the_message_names_a_double_fate():
    ledger = Ledger()
    ledger.add("sampled", rollouts=1, tokens=10)
    ledger.add("failed", rollouts=1, tokens=10)
    ledger.add("unscored", rollouts=1)
    with pytest.raises(LedgerError, match="1 rollouts with more than one fate"):
        ledger.check()


def test_untrained_tokens_of_a_trained_rollout_are_not_trainable():
    ledger = Ledger()
    ledger.add_rollout("trained", sampled_tokens=10, trained_tokens=7)
    assert (ledger["trained"].tokens, ledger["not_trainable"].tokens, ledger["not_trainable"].rollouts) == (7, 3, 0)


@pytest.mark.parametrize(("fate", "trained"), [("failed", 1), ("trained", 11), ("trained", -1)])
def test_impossible_trained_tokens_are_refused(fate, trained):
    with pytest.raises(InputError, match="cannot have"):
        Ledger().add_rollout(fate, sampled_tokens=10, trained_tokens=trained)


def test_an_unknown_row_is_refused_with_the_valid_ones():
    with pytest.raises(InputError, match="'lost' is not a row of the ledger; valid ones: sampled, carried_in"):
        Ledger().add("lost", rollouts=1)


def test_a_negative_count_is_refused():
    with pytest.raises(InputError, match="cannot grow by -1"):
        Ledger().add("trained", rollouts=-1)


@pytest.mark.parametrize("value", [-1, 1.5, "3", True, None])
def test_a_stored_count_that_is_no_whole_number_is_refused(value):
    with pytest.raises(InputError, match="whole number"):
        Ledger.from_dict({"tokens": {"trained": value}})


def test_rows_leave_out_zeros():
    ledger = Ledger()
    ledger.add_rollout("failed", sampled_tokens=5, truncated=True)
    assert ledger.rows() == [("sampled", 1, 5), ("trained", 0, 0), ("failed", 1, 5), ("truncated", 1, 5)]


def test_every_row_has_a_meaning():
    assert list(MEANINGS) == [*SOURCES, *FATES, *ATTRIBUTES]


def test_superseded_tokens_have_a_row_of_their_own():
    ledger = Ledger()
    ledger.add_rollout("trained", sampled_tokens=12, trained_tokens=7, superseded_tokens=4)
    assert [ledger[row].tokens for row in ("sampled", "trained", "superseded", "not_trainable")] == [12, 7, 4, 1]
    with pytest.raises(InputError, match="12 sampled tokens cannot have 13 superseded"):
        ledger.add_rollout("failed", sampled_tokens=12, superseded_tokens=13)
