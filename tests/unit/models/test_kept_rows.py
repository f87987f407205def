"""What finished rows computed is found by how they begin, and kept up to a number of tokens."""

import torch

from art_core.models.kept_rows import KeptRows
from art_core.models.segment import Segment


def buffers(*values, places=2):
    """One layer of one head of size one: slot ``n`` of place 1 holds the ``n``-th value."""
    keys = torch.zeros(places, 1, len(values), 1)
    keys[1, 0, :, 0] = torch.tensor(values)
    return [(keys, -keys)]


def test_the_row_that_a_request_goes_on_from_is_found():
    kept = KeptRows()
    kept.keep((1, 2, 3), None, buffers(10.0, 20.0, 30.0), 1)
    kept.keep((1, 2, 4, 5), None, buffers(10.0, 20.0, 40.0, 50.0), 1)
    found, length = kept.longest((1, 2, 4, 5, 6))
    assert (found.ids, length) == ((1, 2, 4, 5), 4)
    assert kept.longest((1, 2, 4, 6)) == (None, 0)  # in the middle of one
    assert kept.longest((7,)) == (None, 0)


def test_what_it_computed_is_copied_also_from_its_shared_prefix():
    kept = KeptRows()
    shared = Segment((1, 2), tuple((part[1:2], -part[1:2]) for part, _ in buffers(10.0, 20.0)))
    kept.keep((1, 2, 3, 4), shared, buffers(30.0, 40.0, 0.0), 1)
    found, _ = kept.longest((1, 2, 3, 4))
    target = buffers(0.0, 0.0, 0.0, 0.0)
    found.copy(target, 0, 1, 4)
    assert target[0][0][0, 0, :, 0].tolist() == [20.0, 30.0, 40.0, 0.0]
    assert target[0][1][0, 0, :, 0].tolist() == [-20.0, -30.0, -40.0, 0.0]


def test_the_longer_one_stands_for_those_it_went_on_from():
    kept = KeptRows()
    kept.keep((1, 2), None, buffers(1.0, 2.0), 1)
    kept.keep((1, 2, 3, 4), None, buffers(1.0, 2.0, 3.0, 4.0), 1)
    found, length = kept.longest((1, 2, 3, 9))
    assert (found.ids, length) == ((1, 2, 3, 4), 2)


def test_the_oldest_go_first_when_there_are_too_many_tokens():
    kept = KeptRows(max_tokens=4)
    for first in (1, 2, 3):
        kept.keep((first, 9), None, buffers(1.0, 2.0), 1)
    assert [kept.longest((first, 9))[1] for first in (1, 2, 3)] == [0, 2, 2]
    kept.clear()
    assert kept.longest((3, 9)) == (None, 0)


def test_a_prefix_that_they_share_counts_once_and_one_of_its_own_for_each():
    kept = KeptRows(max_tokens=8)
    shared = Segment((1, 2), ())
    kept.keep((1, 2, 3), shared, buffers(30.0), 1)
    kept.keep((1, 2, 4), shared, buffers(40.0), 1)
    assert kept.tokens == 2 + 1 + 1
    kept.keep((5, 6, 7, 8), Segment((5, 6, 7), ()), buffers(80.0), 1)
    assert kept.tokens == 8
    kept.keep((9,), None, buffers(90.0), 1)  # one too many: the oldest goes, its prefix stays for the other
    assert (kept.tokens, kept.longest((1, 2, 3))[1], kept.longest((1, 2, 4))[1]) == (8, 0, 3)
    kept.keep((0,), None, buffers(0.0), 1)
    assert kept.tokens == 3 + 1 + 1 + 1
