"""The rows are what the sampler would have been prompted with and would have had to sample, over several templates."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from art_core.errors import InputError
from art_core.rendering.renderer import Renderer
from art_core.rendering.tokenizer import BytesTokenizer
from art_core.supervised.records import Records, read_records
from art_core.supervised.rows import Rows, batch, chat_rows, prepare, steps_per_epoch
from tests.unit.rendering.families import FAMILIES, renderer

from .chats import plain_chat, rollout, tool_chat, write

BYTES = Renderer(BytesTokenizer())
ONE_ROW = [name for name, family in FAMILIES.items() if family.user_bridge]


def records_of(tmp_path, *records):
    return read_records(write(tmp_path / "d.jsonl", *records))


def chat_of(tmp_path, record):
    return records_of(tmp_path, record).kept[0]


def prepared(tmp_path, *records, ours=BYTES, **options):
    settings = {"max_row_tokens": 10_000, "validation_share": 0.0, "seed": 0} | options
    return prepare(records_of(tmp_path, *records), ours, **settings)


def runs(row):
    """(begin, end) of each stretch of trained tokens."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], row.mask.astype(int), [0]])))
    return [tuple(pair) for pair in edges.reshape(-1, 2).tolist()]


def test_a_chat_by_hand(tmp_path):
    (row,) = chat_rows(chat_of(tmp_path, plain_chat("hi", "yo")), BYTES)
    prompt = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert BYTES.text(row.token_ids.tolist()) == prompt + "yo<|im_end|>"
    assert BYTES.text(row.token_ids[row.mask].tolist()) == "yo<|im_end|>"
    assert row.mask.tolist() == [False] * len(BYTES.tokenizer.encode(prompt)) + [True] * 3


@pytest.mark.parametrize("name", ONE_ROW)
def test_the_first_prompt_is_what_is_rendered_for_sampling_and_the_next_extends_it(tmp_path, name):
    ours, chat = renderer(name), chat_of(tmp_path, tool_chat("Zürich", "21 °C"))
    (row,) = chat_rows(chat, ours)
    ids, ((begin, end), (again, _)) = row.token_ids.tolist(), runs(row)
    assert ids[:begin] == ours.prompt(chat.messages[:1], chat.tools)
    added = ours.extend(ids[:end], chat.messages[:2], chat.messages[2:3], chat.tools, finish_reason="stop")
    assert ids[end:again] == added


@pytest.mark.parametrize("name", ONE_ROW)
def test_what_is_trained_reads_back_as_the_assistants_messages(tmp_path, name):
    ours, chat = renderer(name), chat_of(tmp_path, tool_chat("Zürich", "21 °C"))
    (row,) = chat_rows(chat, ours)
    first, last = (ours.parse(row.token_ids[b:e].tolist(), chat.tools, call_id_prefix="t0") for b, e in runs(row))
    assert [(c.name, c.parsed()) for c in first.tool_calls] == [("get_time", {"city": "Zürich"})]
    assert last.text.strip() == "It is 21 °C."
    assert all(int(row.token_ids[end - 1]) in ours.stop_ids for _, end in runs(row))


def test_a_template_that_cannot_be_continued_gives_a_row_per_reply(tmp_path):
    ours = renderer("mistral3")
    chat = chat_of(tmp_path, plain_chat("a", "b", "c", "d") | {"tools": tool_chat("x")["tools"]})
    rows = chat_rows(chat, ours)
    assert [ours.text(row.token_ids[row.mask].tolist()) for row in rows] == [" b</s>", " d</s>"]
    assert rows[1].token_ids[: runs(rows[1])[0][0]].tolist() == ours.prompt(chat.messages[:3], chat.tools)


def test_such_chats_are_counted(tmp_path):
    record = plain_chat("a", "b", "c", "d") | {"tools": tool_chat("x")["tools"]}
    done = prepared(tmp_path, record, plain_chat("a", "b"), ours=renderer("mistral3"))
    assert (done.forked, len(done.rows.train)) == (1, 3)


def test_a_message_that_is_not_trained_is_context(tmp_path):
    record = plain_chat("a", "b", "c", "d")
    record["messages"][1]["train"] = False
    (row,) = chat_rows(chat_of(tmp_path, record), BYTES)
    assert BYTES.text(row.token_ids[row.mask].tolist()) == "d<|im_end|>"
    assert "assistant\nb<|im_end|>" in BYTES.text(row.token_ids.tolist())


def test_a_stored_rollout_is_trained_as_it_was_sampled(tmp_path):
    (row,) = prepared(tmp_path, rollout("r", 1.0)).rows.train
    assert row.token_ids.tolist() == [1, 2, 3, 72, 73, 257]
    assert row.mask.tolist() == [False] * 3 + [True] * 3
    assert (row.temperature, row.adapter) == (1.0, "default")


def test_what_is_left_out_is_counted_by_reason(tmp_path):
    done = prepared(
        tmp_path,
        plain_chat("a", "b"),
        plain_chat("a", "b", train=False),
        rollout("greedy", 1.0, greedy=True),
        plain_chat("a" * 500, "b"),
        max_row_tokens=200,
    )
    assert done.left_out == {"nothing_to_train": 2, "over_long": 1}
    assert len(done.rows.train) == 1


def test_a_chat_that_the_template_refuses_is_counted_with_the_first_reason(tmp_path):
    bad = tool_chat("x")
    bad["messages"][1]["tool_calls"][0]["id"] = bad["messages"][2]["tool_call_id"] = "short"
    done = prepared(tmp_path, plain_chat("a", "b"), bad, bad, ours=renderer("mistral3"))
    assert done.left_out == {"refused": 2}
    assert "line 2: the chat template refused" in done.reason
    assert "tool call ids have 9 characters" in done.reason


def test_nothing_left_says_why(tmp_path):
    with pytest.raises(InputError, match="nothing to train on: 1 rows longer than a row may be"):
        prepared(tmp_path, plain_chat("a", "b"), max_row_tokens=5)


def test_what_was_left_out_before_stays_in_the_account(tmp_path):
    records = records_of(tmp_path, plain_chat("a", "b"))
    given = Records(kept=records.kept, left_out=Counter(not_best=3))
    done = prepare(given, BYTES, max_row_tokens=99, validation_share=0.0, seed=0)
    assert done.left_out == {"not_best": 3}


def test_whole_records_are_held_out_and_equal_ones_together(tmp_path):
    chats = [plain_chat(f"q{number % 5}", "b") for number in range(10)]
    rows = prepared(tmp_path, *chats, validation_share=0.4).rows
    texts = [{BYTES.text(row.token_ids.tolist()) for row in part} for part in (rows.train, rows.validation)]
    assert (len(rows.train), len(rows.validation)) == (6, 4)
    assert not texts[0] & texts[1]


def test_siblings_of_one_scenario_are_held_out_together(tmp_path):
    stored = [rollout(f"{s}-{n}", 1.0, scenario=s, ids=(ord(s),)) for s in "abcd" for n in range(3)]
    rows = prepared(tmp_path, *stored, validation_share=0.25).rows
    assert len({int(row.token_ids[-1]) for row in rows.validation}) == 1
    assert (len(rows.train), len(rows.validation)) == (9, 3)


@pytest.mark.parametrize(("share", "held"), [(0.01, 1), (0.4, 2), (0.99, 4)])
def test_at_least_one_record_is_held_out_and_one_is_trained(tmp_path, share, held):
    rows = prepared(tmp_path, *(plain_chat(f"q{n}", "b") for n in range(5)), validation_share=share).rows
    assert (len(rows.train), len(rows.validation)) == (5 - held, held)


def test_one_record_cannot_be_held_out(tmp_path):
    with pytest.raises(InputError, match="1 record is too few to hold out a share"):
        prepared(tmp_path, plain_chat("a", "b"), validation_share=0.1)


def test_other_seeds_hold_out_others(tmp_path):
    chats = [plain_chat(f"q{number}", "b") for number in range(20)]
    held = [
        {row.rollout_id for row in prepared(tmp_path, *chats, validation_share=0.2, seed=s).rows.validation}
        for s in (0, 0, 1)
    ]
    assert held[0] == held[1] != held[2]


def test_rows_on_disk_come_back_as_they_were(tmp_path):
    rows = prepared(tmp_path, tool_chat("Paris"), plain_chat("a", "b"), rollout("r", 1.0), validation_share=0.3).rows
    rows.write(tmp_path / "rows")
    again = Rows.read(tmp_path / "rows")
    for one, two in zip((*rows.train, *rows.validation), (*again.train, *again.validation), strict=True):
        assert one.token_ids.tolist() == two.token_ids.tolist()
        assert one.mask.tolist() == two.mask.tolist()
        assert one.rollout_id == two.rollout_id


def test_damaged_rows_are_named(tmp_path):
    Rows(train=()).write(tmp_path)
    (tmp_path / "train.jsonl").write_text('{"ids": [1]}\n')
    with pytest.raises(InputError, match=r"train\.jsonl' cannot be read"):
        Rows.read(tmp_path)


def test_every_row_comes_once_an_epoch_and_epochs_differ():
    epochs = [
        [i for step in steps for i in batch(10, batch_rows=4, seed=0, step=step)] for steps in ((1, 2, 3), (4, 5, 6))
    ]
    assert steps_per_epoch(10, 4) == 3
    assert [sorted(epoch) for epoch in epochs] == [list(range(10))] * 2
    assert epochs[0] != epochs[1]


def test_a_step_can_be_asked_for_alone():
    alone = batch(10, batch_rows=4, seed=3, step=5)
    assert alone == batch(10, batch_rows=4, seed=3, step=5)
    assert alone != batch(10, batch_rows=4, seed=4, step=5)


@pytest.mark.parametrize("content", [[{"type": "text"}], "\ud83d"], ids=["no text", "half a character"])
def test_a_message_that_cannot_be_rendered_is_named_with_its_line(tmp_path, content):
    chat = plain_chat("a", "b")
    chat["messages"][0]["content"] = content
    with pytest.raises(InputError, match=r"line 2.* of another shape than the API's, or half a character"):
        prepared(tmp_path, plain_chat("a", "b"), chat, ours=renderer("qwen3"))
