from __future__ import annotations

import pytest

from art_core.errors import InputError
from art_core.supervised.records import Chat, Rollout, read_records, select

from .chats import plain_chat, rollout, tool_chat, write


def names(records):
    return [record.trajectory.rollout_id for record in records.kept]


def chosen(tmp_path, *records, min_reward=None, best=None):
    return select(read_records(write(tmp_path / "d.jsonl", *records)), min_reward=min_reward, best=best)


def test_chats_and_rollouts_are_told_apart_line_by_line(tmp_path):
    records = read_records(write(tmp_path / "d.jsonl", tool_chat("Paris"), rollout("r", 1.0), plain_chat("a", "b")))
    assert [type(record) for record in records.kept] == [Chat, Rollout, Chat]
    assert records.kept[2].source.endswith("d.jsonl, line 3")


def test_assistant_messages_are_trained_unless_they_say_otherwise(tmp_path):
    path = write(tmp_path / "d.jsonl", tool_chat("Paris"), plain_chat("a", "b", "c", "d", train=False))
    one, two = read_records(path).kept
    assert one.trained == (False, True, False, True)
    assert two.trained == (False, True, False, False)
    assert one.tools[0].name == "get_time"


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (plain_chat("a", train=True), "a user message cannot be trained"),
        (plain_chat("a", "b", train="yes"), "train must be true or false, got 'yes'"),
        ({"messages": [{"role": "assistant", "content": "a"}]}, "nothing comes before the first message"),
        ({"messages": []}, "at least one message"),
        ({"messages": [{"content": "a"}]}, "must be an object with a role"),
        (plain_chat("a", "b", weight=0), """'weight' is written "train": true or false"""),
        (plain_chat("a", "b") | {"functions": []}, "'functions' is the older form of \"tools\""),
        (plain_chat("a", "b") | {"tools": [{"type": "web_search"}]}, "is not a function tool"),
        ({"prompt": "a"}, "is neither a chat .* nor a stored rollout"),
        ({"messages": [{"role": "assistant", "content": "a", "tool_calls": ["x"]}]}, "of another shape than the API's"),
        (plain_chat("a", "b") | {"tools": [5]}, "of another shape than the API's"),
        (["a"], "is neither a chat .* nor a stored rollout"),
        ({"schema": 99, "turns": []}, "the trajectory has schema 99"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_line(tmp_path, record, problem):
    with pytest.raises(InputError, match=rf"d\.jsonl, line 2.*{problem}"):
        read_records(write(tmp_path / "d.jsonl", plain_chat("a", "b"), record))


def test_a_line_that_is_not_json_is_named(tmp_path):
    path = write(tmp_path / "d.jsonl", plain_chat("a", "b"))
    path.write_text(path.read_text() + '{"messages": [')
    with pytest.raises(InputError, match=r"line 2 is not JSON .*: '\{\"messages\": \['"):
        read_records(path)


@pytest.mark.parametrize(("name", "problem"), [("nothing.jsonl", "cannot read"), ("empty.jsonl", "holds no records")])
def test_a_missing_or_empty_file_is_named(tmp_path, name, problem):
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(InputError, match=problem):
        read_records(tmp_path / name)


def test_rewards_below_the_one_asked_for_are_left_out_and_counted(tmp_path):
    found = chosen(
        tmp_path, *(rollout(name, r) for name, r in zip("abcd", (1.0, 0.5, 0.49, None), strict=True)), min_reward=0.5
    )
    assert names(found) == ["a", "b"]
    assert found.left_out == {"below_min_reward": 1, "unscored": 1}


def test_the_best_of_each_group_are_kept_in_their_order_and_of_equals_the_earlier(tmp_path):
    rewards = {"a": ("g", 0.2), "b": ("g", 0.9), "c": ("h", 0.1), "d": ("g", 0.2), "e": ("g", 0.1), "f": ("h", 0.3)}
    found = chosen(tmp_path, *(rollout(name, r, group=group) for name, (group, r) in rewards.items()), best=2)
    assert names(found) == ["a", "b", "c", "f"]
    assert found.left_out == {"not_best": 2}


def test_both_choices_together(tmp_path):
    found = chosen(
        tmp_path, *(rollout(name, r) for name, r in (("a", 0.2), ("b", 0.9), ("c", 0.8))), min_reward=0.5, best=1
    )
    assert names(found) == ["b"]
    assert found.left_out == {"below_min_reward": 1, "not_best": 1}


def test_without_a_choice_only_failed_rollouts_are_left_out(tmp_path):
    found = chosen(tmp_path, rollout("a", None), rollout("b", 0.0), rollout("c", 1.0, stop_reason="error"))
    assert (names(found), found.left_out) == (["a", "b"], {"failed": 1})


def test_a_choice_among_chats_has_no_effect_and_is_refused(tmp_path):
    with pytest.raises(InputError, match="best chooses among stored rollouts"):
        chosen(tmp_path, plain_chat("a", "b"), best=1)


def test_chats_beside_rollouts_are_not_chosen_among(tmp_path):
    found = chosen(tmp_path, plain_chat("a", "b"), rollout("a", 0.1), min_reward=0.5)
    assert [type(record) for record in found.kept] == [Chat]


def test_the_journals_of_a_run_are_read_in_order_without_what_was_cut_or_replaced(tmp_path):
    write(tmp_path / "trajectories" / "step-000002.jsonl", rollout("c", 0.3))
    first = write(
        tmp_path / "trajectories" / "step-000001.jsonl", rollout("a", None), rollout("b", 0.2), rollout("a", 0.1)
    )
    first.write_text(first.read_text() + '{"schema": 1, "tu')
    write(tmp_path / "trajectories" / "eval-after.jsonl", rollout("eval", 1.0))
    records = read_records(tmp_path)
    assert [(r.trajectory.rollout_id, r.trajectory.reward) for r in records.kept] == [
        ("b", 0.2),
        ("a", 0.1),
        ("c", 0.3),
    ]
    assert records.left_out == {"cut": 1, "superseded": 1}


def test_a_directory_that_is_no_run_is_named(tmp_path):
    with pytest.raises(InputError, match="neither a JSONL file nor a run"):
        read_records(tmp_path)
