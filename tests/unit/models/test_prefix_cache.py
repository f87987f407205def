import torch

from art_core.models.attention import use_segment_attention
from art_core.models.prefix_cache import PrefixCache
from art_core.models.segment import common_prefix
from tests.tiny import tiny_model


def cache(**options):
    model = tiny_model()
    use_segment_attention(model)
    return PrefixCache(model, **options)


def test_common_prefix_counts_leading_ids_that_all_share():
    assert common_prefix([(1, 2, 3), (1, 2, 4, 5), (1, 2)]) == 2
    assert common_prefix([(1,), (2,)]) == 0


@torch.inference_mode()
def test_a_segment_is_computed_once_and_extended_by_what_follows():
    prefixes = cache()
    short = prefixes.get([5, 6, 7])
    assert prefixes.get([5, 6, 7]) is short
    prefixes.get([5, 6, 7, 8, 9])
    assert prefixes.computed_tokens == 5


@torch.inference_mode()
def test_an_extended_segment_equals_one_computed_whole():
    extended, whole = cache(), cache()
    extended.get([5, 6, 7, 1])
    for (k1, v1), (k2, v2) in zip(extended.get([5, 6, 7, 8, 9]).layers, whole.get([5, 6, 7, 8, 9]).layers, strict=True):
        assert torch.allclose(k1, k2, atol=1e-5)
        assert torch.allclose(v1, v2, atol=1e-5)


@torch.inference_mode()
def test_the_oldest_segment_is_dropped_beyond_the_bound():
    prefixes = cache(max_tokens=7)
    prefixes.get([1, 2, 3, 4])
    prefixes.get([5, 6, 7, 8])
    assert prefixes.longest([1, 2, 3, 4]) == (None, 0)
    assert prefixes.longest([5, 6, 7, 9])[1] == 3
