from __future__ import annotations

from typing import Any

import pytest

from art_core.errors import InputError
from art_core.messages import Message
from art_core.trajectory.graph import PolicyVersion, Span, TokenGraph, Turn


def message(text: str) -> Message:
    return Message(role="user", content=text)


def turn(turn_id: str, context: tuple[int, ...], completion: tuple[int, ...], **more: Any) -> Turn:
    fields = {"logprobs": (-1.0,) * len(completion), "reply": Message(role="assistant", content=turn_id), **more}
    return Turn(id=turn_id, context_ids=context, completion_ids=completion, **fields)


def test_a_path_is_the_kept_part_of_the_parent_and_what_was_added() -> None:
    graph = TokenGraph([turn("a", (1, 2), (3, 4)), turn("b", (5,), (6,), parent="a", parent_len=4)])
    assert graph.path("b") == [1, 2, 3, 4, 5, 6]
    assert graph.path_len("b") == 6


@pytest.mark.parametrize(("cut", "expected"), [(0, [9]), (1, [1, 9]), (3, [1, 2, 3, 9]), (5, [1, 2, 3, 4, 5, 9])])
def test_a_parent_may_be_cut_anywhere(cut: int, expected: list[int]) -> None:
    first = [turn("a", (1, 2), (3, 4)), turn("b", (), (5,), parent="a", parent_len=4)]
    assert TokenGraph([*first, turn("c", (), (9,), parent="b", parent_len=cut)]).path("c") == expected


def test_a_cut_before_the_parents_own_tokens_reaches_further_back() -> None:
    graph = TokenGraph([turn("a", (1, 2), (3,)), turn("b", (4,), (5,), parent="a", parent_len=3)])
    graph.add(turn("c", (7,), (8,), parent="b", parent_len=2))
    assert graph.path("c") == [1, 2, 7, 8]
    assert [(t.id, keep) for t, keep in graph.chain("c")] == [("a", 2), ("b", 2), ("c", 4)]


def test_leaves_are_the_turns_nobody_extends_whole() -> None:
    graph = TokenGraph([turn("a", (1,), (2,)), turn("b", (), (3,), parent="a", parent_len=2)])
    graph.add(turn("c", (), (4,), parent="b", parent_len=1))
    assert [t.id for t in graph.leaves()] == ["b", "c"]


def test_a_history_follows_the_messages_that_were_kept() -> None:
    graph = TokenGraph([turn("a", (1,), (2,), messages=(message("u"),))])
    graph.add(turn("b", (), (3,), parent="a", parent_len=2, parent_messages=2, messages=(message("v"),)))
    graph.add(turn("c", (), (4,), parent="b", parent_len=1, parent_messages=1, messages=(message("w"),)))
    assert [m.content for m in graph.history("b")] == ["u", "a", "v", "b"]
    assert [m.content for m in graph.history("c")] == ["u", "w", "c"]


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (turn("a", (), (1,)), "occurs twice"),
        (turn("x", (), (1,), parent="nobody"), "unknown parent 'nobody'"),
        (turn("x", (), (1,), parent="a", parent_len=4), "keeps 4 ids of 'a', whose path has 3"),
    ],
)
def test_a_turn_that_does_not_fit_is_refused(bad: Turn, why: str) -> None:
    graph = TokenGraph([turn("a", (1, 2), (3,))])
    with pytest.raises(InputError, match=why):
        graph.add(bad)
    assert len(graph) == 1


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"logprobs": (-1.0, -1.0)}, "must be parallel"),
        ({"parent_len": 1}, "keeps 1 ids of parent None"),
        ({"parent": "p", "parent_len": -1}, "keeps -1"),
        ({"finish_reason": "tool_calls"}, "finish reason"),
        ({"reply": message("u")}, "not assistant"),
        ({"versions": (Span(2, PolicyVersion("p", 1)),)}, "version span"),
    ],
)
def test_a_turn_is_checked_where_it_is_made(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        turn("x", (1,), (2,), **fields)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, None),
        ({"not_trainable": "sampled greedily"}, "sampled greedily"),
        ({"logprobs": None}, "no logprobs"),
        ({"completion_ids": (), "logprobs": ()}, "no token ids"),
    ],
)
def test_a_turn_says_why_it_cannot_be_trained(fields: dict[str, Any], why: str | None) -> None:
    made = Turn(
        **{
            "id": "x",
            "context_ids": (1,),
            "completion_ids": (2,),
            "logprobs": (-1.0,),
            "reply": Message(role="assistant"),
            **fields,
        }
    )
    assert (made.trainable, made.why_not_trainable) == (why is None, why)


def test_bad_logprobs_are_counted() -> None:
    assert turn("x", (), (1, 2, 3), logprobs=(float("nan"), -1.0, float("-inf"))).bad_logprobs == 2


@pytest.mark.parametrize("text", ["", "default", "@1", "default@", "default@x", "default@-1"])
def test_a_version_has_a_name_and_a_step(text: str) -> None:
    with pytest.raises(InputError, match="name@step"):
        PolicyVersion.parse(text)


def test_versions_are_read_back() -> None:
    assert PolicyVersion.parse(str(PolicyVersion("team@a", 12))) == PolicyVersion("team@a", 12)
