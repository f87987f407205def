"""Attention over shared prefixes is that of every row by itself."""

import math
from types import SimpleNamespace

import pytest
import torch

from art_core.models.attention import PrefixGroup, SegmentPlan, SuffixWindow, segment_attention

HEADS, OF_A_HEAD, SIZE = 2, 3, 4
FILLED = [3, 1, 2, 3, 1]  # slots of each row's suffix before the forward
ROOM = 8


def of(*shape, dtype):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64).to(dtype)


def prefix(length, dtype):
    return [(of(1, HEADS, length, SIZE, dtype=dtype), of(1, HEADS, length, SIZE, dtype=dtype) + 1)]


def plan(lengths, new_tokens=1):
    """Groups of one row each with prefixes of these lengths."""
    groups = [PrefixGroup(slice(n, n + 1), prefix(length, torch.float32), length) for n, length in enumerate(lengths)]
    window = SuffixWindow([], torch.zeros(len(lengths), dtype=torch.long), new_tokens)
    return SegmentPlan(groups, window, torch.tensor(lengths))


def reference(query, keys, values, position, window, softcap):
    """One query of one head over (L, D) keys and values whose positions are 0, 1, ..."""
    scores = []
    for at, key in enumerate(keys):
        score = float(query @ key) / math.sqrt(SIZE)
        score = score if softcap is None else softcap * math.tanh(score / softcap)
        scores.append(score if at <= position and (window is None or position - at < window) else -math.inf)
    exps = [math.exp(score - max(scores)) for score in scores]
    return sum(weight / sum(exps) * value for weight, value in zip(exps, values, strict=True))


def test_groups_of_similar_length_share_a_bundle():
    assert [[group.length for group in bundle] for bundle in plan([80, 90, 100, 101, 300]).bundles] == [
        [80, 90, 100],
        [101],
        [300],
    ]


def test_a_prompt_is_computed_group_by_group():
    assert [len(bundle) for bundle in plan([80, 90], new_tokens=2).bundles] == [1, 1]


@pytest.mark.parametrize("softcap", [None, 0.5])
@pytest.mark.parametrize("sliding_window", [None, 5])
@pytest.mark.parametrize("lengths", [(6, 6), (6, 7), (4, 9)])
@pytest.mark.parametrize("new_tokens", [1, 3])
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-6), (torch.bfloat16, 3e-2)])
@pytest.mark.parametrize(
    ("lie", "order"), [("21-21", [1, 4, 0, 3, 2]), ("21211", [1, 3, 4, 0, 2])], ids=["one alone", "none alone"]
)
def test_every_row_sees_its_prefix_and_its_suffix(
    lie, order, dtype, bound, new_tokens, lengths, sliding_window, softcap
):
    first, second = (prefix(length, dtype) for length in lengths)
    own = [{"1": first, "2": second, "-": None}[which] for which in lie]  # the rows as they lie
    firsts = lie.count("1")
    groups = [
        PrefixGroup(slice(0, firsts), first, lengths[0]),
        PrefixGroup(slice(firsts, firsts + lie.count("2")), second, lengths[1]),
    ]
    prefix_lengths = [0 if layers is None else layers[0][0].shape[2] for layers in own]
    buffers = [(of(5, HEADS, ROOM, SIZE, dtype=dtype), of(5, HEADS, ROOM, SIZE, dtype=dtype) - 1)]
    window = SuffixWindow(buffers, torch.tensor(FILLED), new_tokens)
    queries = of(5, HEADS * OF_A_HEAD, new_tokens, SIZE, dtype=dtype)
    keys, values = window.update(
        of(5, HEADS, new_tokens, SIZE, dtype=dtype), of(5, HEADS, new_tokens, SIZE, dtype=dtype), 0
    )

    mixed, _ = segment_attention(
        SimpleNamespace(layer_idx=0),
        queries,
        keys,
        values,
        None,
        segment_plan=SegmentPlan(groups, window, torch.tensor(prefix_lengths), torch.tensor(order)),
        sliding_window=sliding_window,
        softcap=softcap,
    )

    for row, layers in enumerate(own):
        for head in range(HEADS * OF_A_HEAD):
            shared = [] if layers is None else [part[0, head // OF_A_HEAD] for part in layers[0]]
            seen_keys, seen_values = (
                torch.cat([*shared[part : part + 1], suffix[row, head // OF_A_HEAD]]).double()
                for part, suffix in enumerate((keys, values))
            )
            for token in range(new_tokens):
                position = prefix_lengths[row] + FILLED[row] + token
                query = queries[row, head, token].double()
                expected = reference(query, seen_keys, seen_values, position, sliding_window, softcap)
                assert (mixed[row, token, head].double() - expected).abs().max() < bound
