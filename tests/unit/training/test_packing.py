"""The trie of shared prefixes: what is computed, and that every trained token is asked for exactly once."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from art_core.training.packing import build_tree, cut

from .tiny import row, step_rows


def tree(samples, *, budget=1000, share=1):
    return build_tree(samples, micro_batch_tokens=budget, min_shared_tokens=share, pad_id=0)


def computed(root):
    return sum(batch.tokens for batch in root.batches())


def asked(root):
    return Counter(
        (int(r), int(p)) for batch in root.batches() for r, p in zip(batch.ask_row, batch.ask_position, strict=True)
    )


def wanted(samples):
    return Counter((r, int(p)) for r, sample in enumerate(samples) for p in np.flatnonzero(sample.mask))


def test_prompt_of_a_group_is_computed_once():
    samples = [row([1, 2, 3, 4, 10 + k, 20 + k], [4, 5]) for k in range(3)]
    root = tree(samples)
    assert root.children[0].batch.token_ids.tolist() == [[1, 2, 3, 4]]
    assert root.children[0].leaves[0].token_ids.tolist() == [[10], [11], [12]]


def test_first_trained_token_is_predicted_by_the_shared_prompt():
    samples = [row([1, 2, 3, 4, 10 + k], [4]) for k in range(2)]
    prompt, rest = tree(samples).batches()
    assert prompt.token_ids.tolist() == [[1, 2, 3]]
    assert rest.token_ids.tolist() == [[4], [4]]
    assert rest.ask_token.tolist() == [10, 11]


def test_three_levels():
    system, groups = [1] * 6, ([2] * 4, [3] * 4)
    samples = [row([*system, *g, 10 + k, 20], [10, 11]) for g in groups for k in range(2)]
    root = tree(samples)
    assert [child.batch.start for child in root.children] == [0]
    assert [child.batch.start for child in root.children[0].children] == [6, 6]
    assert computed(root) == 6 + 2 * 4 + 4 * 1


def test_small_savings_are_not_worth_a_node():
    samples = [row([1, 2, 3, 4, 10 + k, 20], [4, 5]) for k in range(3)]
    assert len(tree(samples, share=8).children) == 1  # 4 tokens, 2 rows that need not compute them
    assert tree(samples, share=9).children == ()


def test_a_short_common_start_does_not_hide_a_long_one_below():
    samples = [row([1, g, *[5] * 20, 10 + k, 20], [22, 23]) for g in (2, 3) for k in range(2)]
    root = tree(samples, share=15)
    assert [child.batch.token_ids.shape for child in root.children] == [(1, 22), (1, 22)]


def test_trained_tokens_may_be_shared():
    samples = [row([1, 2, 3, 4, 5, 6 + k], [2, 3, 4, 5]) for k in range(2)]
    shared, rest = tree(samples).batches()
    assert shared.token_ids.tolist() == [[1, 2, 3, 4]]
    assert len(shared.slots) == 3
    assert sorted(zip(shared.ask_row.tolist(), shared.ask_position.tolist(), strict=True)) == [
        *[(0, 2), (0, 3), (0, 4)],
        *[(1, 2), (1, 3), (1, 4)],
    ]
    assert rest.ask_token.tolist() == [6, 7]


def test_one_position_at_two_temperatures_is_two_slots():
    samples = [row([1, 2, 3], [1, 2], temperature=t) for t in (1.0, 0.5)]
    shared, _ = tree(samples).batches()
    assert shared.slots.tolist() == [[0, 0], [0, 0]]
    assert shared.temperatures.tolist() == [1.0, 0.5]


def test_nothing_after_the_last_trained_token_is_computed():
    assert computed(tree([row([1, 2, 3, 9, 9, 9], [2])])) == 2


def test_without_sharing_every_row_is_whole():
    samples, _ = step_rows()
    root = tree(samples, share=None)
    assert root.children == ()
    assert computed(root) == sum(int(np.flatnonzero(s.mask)[-1]) for s in samples)


def test_budget_bounds_batches():
    samples, _ = step_rows()
    for batch in tree(samples, budget=30, share=None).batches():
        assert batch.token_ids.size <= 30 or len(batch.token_ids) == 1


def test_padding_is_the_pad_id():
    samples = [row([1, 2, 3, 4], [3]), row([5, 6], [1])]
    root = build_tree(samples, micro_batch_tokens=100, min_shared_tokens=None, pad_id=7)
    assert root.leaves[0].token_ids.tolist() == [[1, 2, 3], [5, 7, 7]]


ROWS = st.lists(
    st.lists(st.integers(0, 2), min_size=2, max_size=10).flatmap(
        lambda ids: st.tuples(st.just(ids), st.sets(st.integers(1, len(ids) - 1), min_size=1))
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=200)
@given(rows=ROWS, budget=st.integers(1, 40), share=st.one_of(st.none(), st.integers(1, 12)))
def test_every_trained_token_is_asked_for_once_with_its_own_history(rows, budget, share):
    samples = [row(ids, sorted(trained)) for ids, trained in rows]
    root = tree(samples, budget=budget, share=share)
    assert asked(root) == wanted(samples)
    check_histories(root, samples, [])


def check_histories(node, samples, history):
    for batch in node.leaves:
        check_batch(batch, samples, history)
    for child in node.children:
        check_batch(child.batch, samples, history)
        check_histories(child, samples, history + child.batch.token_ids[0].tolist())


def check_batch(batch, samples, history):
    assert batch.start == len(history)
    asks = zip(batch.ask_slot, batch.ask_token, batch.ask_row, batch.ask_position, strict=True)
    for slot, token, sample, position in asks:
        line, column = batch.slots[slot]
        seen = history + batch.token_ids[line, : column + 1].tolist()
        assert seen == samples[sample].token_ids[:position].tolist()
        assert token == samples[sample].token_ids[position]


@pytest.mark.parametrize("copies", [2, 5])
def test_equal_rows_are_computed_once_but_for_their_last_token(copies):
    samples = [row([1, 2, 3, 4, 5], [3, 4])] * copies
    assert computed(tree(samples)) == 3 + copies


def test_rows_of_one_length_are_one_batch():
    assert cut([50] * 8, budget=1000) == [(0, 8)]


def test_short_rows_are_parted_from_long_ones_where_padding_costs_more_than_a_pass():
    assert cut([100, 100, 20, 20], budget=1000) == [(0, 2), (2, 4)]
    assert cut([100, 100, 90, 90], budget=1000) == [(0, 4)]


def test_a_batch_stays_within_the_budget_and_a_longer_row_is_one_of_its_own():
    assert cut([100, 60, 60, 60], budget=130) == [(0, 1), (1, 2), (2, 4)]


def test_cached_tokens_count_for_the_budget():
    assert cut([60, 60, 60, 60], budget=250, cached=60) == [(0, 2), (2, 4)]


def test_no_rows_no_batches():
    assert cut([], budget=10) == []
