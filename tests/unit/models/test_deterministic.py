import pytest
import torch

from art_core.models.deterministic import deterministic_algorithms, fix_threads


@pytest.mark.parametrize("before", [False, True])
def test_what_was_set_before_is_put_back(before):
    torch.use_deterministic_algorithms(before, warn_only=before)
    try:
        with deterministic_algorithms():
            assert torch.are_deterministic_algorithms_enabled()
            assert not torch.is_deterministic_algorithms_warn_only_enabled()
        assert torch.are_deterministic_algorithms_enabled() is before
        assert torch.is_deterministic_algorithms_warn_only_enabled() is before
        assert torch.utils.deterministic.fill_uninitialized_memory
    finally:
        torch.use_deterministic_algorithms(False)


def test_fixing_the_threads_changes_not_how_many_they_are():
    before = torch.get_num_threads()
    fix_threads()
    assert torch.get_num_threads() == before
