"""The trie of shared prefixes: what is computed, and that every trained token is asked for exactly once."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from art_core.training.packing import Segment, build_tree

from .tiny import row, step_rows


def tree(samples, *, budget=1000, share=1):
    return build_tree(samples, micro_batch_tokens=budget, min_shared_tokens=share)


def only_pack(samples, **options):
    (pack,) = tree(samples, **options).every_pack()
    return pack


def computed(root):
    return sum(len(pack.token_ids) for pack in root.every_pack())


def asked(root):
    return Counter(
        (int(r), int(p)) for pack in root.every_pack() for r, p in zip(pack.ask_row, pack.ask_position, strict=True)
    )


def wanted(samples):
    return Counter((r, int(p)) for r, sample in enumerate(samples) for p in np.flatnonzero(sample.mask))


def test_prompt_of_a_group_is_computed_once():
    samples = [row([1, 2, 3, 4, 10 + k, 20 + k], [4, 5]) for k in range(3)]
    pack = only_pack(samples)
    assert pack.token_ids.tolist() == [1, 2, 3, 4, 10, 11, 12]
    assert pack.positions.tolist() == [0, 1, 2, 3, 4, 4, 4]
    assert pack.segments == (
        Segment(begin=0, end=4, parent=None),
        Segment(begin=4, end=5, parent=0),
        Segment(begin=5, end=6, parent=0),
        Segment(begin=6, end=7, parent=0),
    )


def test_what_does_not_fit_into_one_pack_becomes_a_node_with_packs():
    samples = [row([1, 2, 3, 4, 10 + k, 20 + k], [4, 5]) for k in range(3)]
    root = tree(samples, budget=6)
    (node,) = root.children
    assert node.pack.token_ids.tolist() == [1, 2, 3, 4]
    assert [pack.token_ids.tolist() for pack in node.packs] == [[10, 11, 12]]
    assert [pack.start for pack in node.packs] == [4]


def test_first_trained_token_is_predicted_by_the_shared_prompt():
    pack = only_pack([row([1, 2, 3, 4, 10 + k], [4]) for k in range(2)])
    assert pack.token_ids.tolist() == [1, 2, 3, 4, 4]
    assert pack.slots.tolist() == [3, 4]
    assert pack.ask_token.tolist() == [10, 11]


def test_three_levels():
    system, groups = [1] * 6, ([2] * 4, [3] * 4)
    samples = [row([*system, *g, 10 + k, 20], [10, 11]) for g in groups for k in range(2)]
    pack = only_pack(samples)
    assert [segment.parent for segment in pack.segments] == [None, 0, 1, 1, 0, 4, 4]
    assert computed(tree(samples)) == 6 + 2 * 4 + 4 * 1


def test_three_levels_that_do_not_fit():
    system, groups = [1] * 6, ([2] * 4, [3] * 4)
    samples = [row([*system, *g, 10 + k, 20], [10, 11]) for g in groups for k in range(2)]
    (top,) = tree(samples, budget=5).children
    assert [child.pack.start for child in top.children] == [6, 6]
    assert [pack.start for child in top.children for pack in child.packs] == [10, 10]


def test_small_savings_are_not_shared():
    samples = [row([1, 2, 3, 4, 10 + k, 20], [4, 5]) for k in range(3)]
    assert len(only_pack(samples, share=8).segments) == 4  # 4 tokens, 2 rows that need not compute them
    assert [s.parent for s in only_pack(samples, share=9).segments] == [None] * 3


def test_a_short_common_start_does_not_hide_a_long_one_below():
    samples = [row([1, g, *[5] * 20, 10 + k, 20], [22, 23]) for g in (2, 3) for k in range(2)]
    segments = only_pack(samples, share=15).segments
    assert [(s.begin, s.end, s.parent) for s in segments if s.parent is None] == [(0, 22, None), (24, 46, None)]


def test_trained_tokens_may_be_shared():
    samples = [row([1, 2, 3, 4, 5, 6 + k], [2, 3, 4, 5]) for k in range(2)]
    pack = only_pack(samples)
    assert pack.token_ids.tolist() == [1, 2, 3, 4, 5, 5]
    assert pack.slots.tolist() == [1, 2, 3, 4, 5]
    assert pack.ask_slot.tolist() == [0, 1, 2, 0, 1, 2, 3, 4]
    assert pack.ask_row.tolist() == [0, 0, 0, 1, 1, 1, 0, 1]
    assert pack.ask_token.tolist() == [3, 4, 5, 3, 4, 5, 6, 7]


def test_one_position_at_two_temperatures_is_two_slots():
    pack = only_pack([row([1, 2, 3], [1], temperature=t) for t in (1.0, 0.5)])
    assert pack.token_ids.tolist() == [1, 1]  # the last position of a row is its own
    samples = [row([1, 2, 3], [1, 2], temperature=t) for t in (1.0, 0.5)]
    pack = only_pack(samples)
    assert pack.slots.tolist() == [0, 0, 1, 2]
    assert pack.temperatures.tolist() == [1.0, 0.5, 1.0, 0.5]


def test_nothing_after_the_last_trained_token_is_computed():
    assert computed(tree([row([1, 2, 3, 9, 9, 9], [2])])) == 2


def test_without_sharing_every_row_is_whole_and_a_pack_of_its_own():
    samples, _ = step_rows()
    root = tree(samples, share=None)
    lengths = [int(np.flatnonzero(s.mask)[-1]) for s in samples]
    assert [len(pack.token_ids) for pack in root.packs] == lengths
    assert root.children == ()


def test_the_budget_bounds_packs_and_a_longer_run_is_one_of_its_own():
    samples = [row([k] * length, [length - 1]) for k, length in enumerate([101, 61, 61, 61, 31])]
    assert [len(pack.token_ids) for pack in tree(samples, budget=90).packs] == [100, 90, 60, 60]


def test_no_rows_no_packs():
    assert list(tree([]).every_pack()) == []


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
    for pack in node.packs:
        check_pack(pack, samples, history)
    for child in node.children:
        check_pack(child.pack, samples, history)
        check_histories(child, samples, history + child.pack.token_ids.tolist())


def check_pack(pack, samples, history):
    assert pack.start == len(history)
    asks = zip(pack.ask_slot, pack.ask_token, pack.ask_row, pack.ask_position, strict=True)
    for slot, token, sample, position in asks:
        seen = history + seen_by(pack, int(pack.slots[slot]))
        assert seen == samples[sample].token_ids[:position].tolist()
        assert token == samples[sample].token_ids[position]
        assert pack.positions[pack.slots[slot]] == position - 1


def seen_by(pack, column):
    """The tokens of the pack that a column sees: its own segment up to itself, and those above."""
    number = next(n for n, s in enumerate(pack.segments) if s.begin <= column < s.end)
    seen = pack.token_ids[pack.segments[number].begin : column + 1].tolist()
    while (number := pack.segments[number].parent) is not None:
        seen = pack.token_ids[pack.segments[number].begin : pack.segments[number].end].tolist() + seen
    return seen


@pytest.mark.parametrize("copies", [2, 5])
def test_equal_rows_are_computed_once_but_for_their_last_token(copies):
    samples = [row([1, 2, 3, 4, 5], [3, 4])] * copies
    assert computed(tree(samples)) == 3 + copies
