"""T9, T10, T11 and T12: which rows a graph becomes, and that each sampled token is trained once in one of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from art_core.errors import InputError, NotTrainable
from art_core.messages import Message
from art_core.trajectory.graph import PolicyVersion, Span, TokenGraph, Turn
from art_core.trajectory.samples import TrainingSample, samples_of


def turn(turn_id: str, context: tuple[int, ...], completion: tuple[int, ...], **more: Any) -> Turn:
    fields = {"logprobs": tuple(-float(i) for i in completion), "reply": Message(role="assistant"), **more}
    return Turn(id=turn_id, context_ids=context, completion_ids=completion, **fields)


def rows(*turns: Turn) -> list[tuple[list[int], list[int], list[float]]]:
    samples = samples_of(TokenGraph(turns), rollout_id="r")
    return [(s.token_ids.tolist(), s.mask.astype(int).tolist(), s.logprobs.tolist()) for s in samples]


def test_t10_turns_that_extend_each_other_are_one_row() -> None:
    merged = rows(turn("a", (10,), (1, 2)), turn("b", (11,), (3,), parent="a", parent_len=3))
    assert merged == [([10, 1, 2, 11, 3], [0, 1, 1, 0, 1], [0, -1, -2, 0, -3])]


def test_t9_the_stop_token_is_trained() -> None:
    assert rows(turn("a", (10,), (1, 257)))[0][1] == [0, 1, 1]


def test_t11_a_fork_trains_the_shared_tokens_once() -> None:
    forked = rows(turn("a", (10,), (1, 2)), turn("b", (11,), (3,), parent="a", parent_len=2))
    assert [(ids, mask) for ids, mask, _ in forked] == [([10, 1, 2], [0, 1, 1]), ([10, 1, 11, 3], [0, 0, 0, 1])]


def test_t11_two_continuations_of_one_turn_train_it_once() -> None:
    first = turn("a", (10,), (1, 2))
    both = [turn(name, (11,), (3,), parent="a", parent_len=3) for name in "bc"]
    assert [mask for _, mask, _ in rows(first, *both)] == [[0, 1, 1, 0, 1], [0, 0, 0, 0, 1]]


def test_t12_interleaved_conversations_are_two_rows() -> None:
    turns = [turn("a", (1,), (2,)), turn("b", (3,), (4,))]
    turns += [turn(f"{p}{p}", (5,), (6,), parent=p, parent_len=2) for p in "ab"]
    assert [mask for _, mask, _ in rows(*turns)] == [[0, 1, 0, 1], [0, 1, 0, 1]]


def test_turns_that_must_not_be_trained_are_context() -> None:
    greedy = turn("a", (10,), (1,), not_trainable="sampled greedily")
    assert rows(greedy, turn("b", (), (2,), parent="a", parent_len=2))[0][1] == [0, 0, 1]


def test_a_logprob_that_is_not_finite_makes_its_token_context() -> None:
    assert rows(turn("a", (10,), (1, 2), logprobs=(float("nan"), -2.0))) == [([10, 1, 2], [0, 0, 1], [0, 0, -2])]


def test_the_first_token_of_all_is_never_trained() -> None:
    assert rows(turn("a", (), (1, 2)))[0][1] == [0, 1]


def test_other_temperatures_are_other_rows() -> None:
    cold = turn("b", (), (2,), parent="a", parent_len=2, temperature=0.5)
    samples = samples_of(TokenGraph([turn("a", (10,), (1,)), cold]), rollout_id="r")
    assert [(s.temperature, s.mask.tolist()) for s in samples] == [
        (1.0, [False, True, False]),
        (0.5, [False, False, True]),
    ]


def test_a_row_is_as_stale_as_its_oldest_version() -> None:
    spans = (Span(0, PolicyVersion("p", 3)), Span(1, PolicyVersion("p", 4)))
    (sample,) = samples_of(TokenGraph([turn("a", (10,), (1, 2), versions=spans)]), rollout_id="r")
    assert (sample.version, sample.adapter, sample.trained_tokens) == (PolicyVersion("p", 3), "p", 2)


@pytest.mark.parametrize(
    ("turns", "why"),
    [
        ([], "has no turns"),
        ([turn("a", (1,), (2,), logprobs=None)], "turn 'a' has no logprobs"),
        ([turn("a", (1,), (2,), not_trainable="sampled greedily")], "turn 'a' has sampled greedily"),
        ([turn("a", (1,), (2,), logprobs=(float("nan"),))], "no finite logprob"),
    ],
)
def test_a_trajectory_without_trainable_tokens_says_so(turns: list[Turn], why: str) -> None:
    with pytest.raises(NotTrainable, match=why):
        samples_of(TokenGraph(turns), rollout_id="r")


@pytest.mark.parametrize(("mask", "why"), [([False], "must be equal"), ([True, False], "first token")])
def test_a_sample_is_checked_where_it_is_made(mask: list[bool], why: str) -> None:
    with pytest.raises(InputError, match=why):
        TrainingSample(
            token_ids=np.asarray([1, 2]),
            mask=np.asarray(mask),
            logprobs=np.zeros(2, np.float32),
            temperature=1.0,
            version=PolicyVersion("p", 0),
            adapter="p",
            rollout_id="r",
        )


@st.composite
def graphs(draw: st.DrawFn) -> TokenGraph:
    """Any tree of turns with any cuts; every sampled token is a number of its own."""
    graph, token = TokenGraph(), 1000
    for index in range(draw(st.integers(1, 7))):
        parent = f"t{draw(st.integers(0, index - 1))}" if index and draw(st.booleans()) else None
        size = graph.path_len(parent) if parent else 0
        cut = size if draw(st.booleans()) else draw(st.integers(0, size))
        context = draw(st.lists(st.integers(1, 9), min_size=0 if cut else 1, max_size=3))
        count = draw(st.integers(0, 3))
        completion = tuple(range(token, token + count))
        token += count
        graph.add(turn(f"t{index}", tuple(context), completion, parent=parent, parent_len=cut if parent else 0))
    return graph


@given(graphs())
def test_t9_each_sampled_token_is_trained_exactly_once(graph: TokenGraph) -> None:
    sampled = Counter(token for item in graph for token in item.completion_ids)
    if not sampled:
        return
    samples = samples_of(graph, rollout_id="r")
    trained = Counter(int(t) for s in samples for t, on in zip(s.token_ids, s.mask, strict=True) if on)
    assert trained == sampled


@given(graphs())
def test_every_row_is_a_leafs_path_and_carries_the_behaviour_logprobs(graph: TokenGraph) -> None:
    if not any(item.completion_ids for item in graph):
        return
    paths = [graph.path(leaf.id) for leaf in graph.leaves()]
    for sample in samples_of(graph, rollout_id="r"):
        assert sample.token_ids.tolist() in paths
        assert (sample.logprobs == np.where(sample.mask, -sample.token_ids, 0)).all()


@given(graphs())
def test_a_path_is_what_its_parent_kept_and_what_it_added(graph: TokenGraph) -> None:
    for item in graph:
        kept = graph.path(item.parent)[: item.parent_len] if item.parent else []
        assert graph.path(item.id) == [*kept, *item.context_ids, *item.completion_ids]
